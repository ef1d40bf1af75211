/* Memory of graphs. */
#include "fence/fence.h"

CUresult rf_graph_before(CUgraphExec exec)
{
	return CUDA_SUCCESS;
}

void rf_graph_after(CUgraphExec exec, CUresult r)
{
}
