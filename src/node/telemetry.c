/* /metrics: the cards, and who uses how much of them. */
#include "node/agent.h"
#include "observe/metrics.h"

struct page {
	struct rf_metrics m;
	struct rf_agent *g;
};

static void container_card(struct page *p, const struct rf_container *c, size_t i)
{
	const struct rf_worker *w = c->worker;
	struct rf_fence_figures f;

	if (!rf_container_figures(c, i, &f))
		return;
	rf_card_use_metrics(&p->m,
			    &(struct rf_card_use){ .node = p->g->name,
						   .tenant = rf_str(w->tenant),
						   .ns = rf_str(w->ns),
						   .pod = rf_str(w->name),
						   .container = rf_str(c->name),
						   .index = c->grant.cards[i].index,
						   .used = f.used,
						   .cap = f.cap,
						   .processes = f.processes,
						   .refusals = f.refusals,
						   .gpu_us = f.gpu_us,
						   .held_us = f.held_us,
						   .compute_milli =
							   c->grant.cards[i].compute_milli });
}

static void pods(struct page *p)
{
	size_t by_state[RF_POD_STATES] = { 0 };

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;

		by_state[w->state]++;
		for (size_t i = 0; i < w->n_containers; i++)
			for (size_t j = 0; j < w->containers[i].grant.n; j++)
				container_card(p, &w->containers[i], j);
	}
	for (size_t i = 0; i < RF_POD_STATES; i++) {
		struct rf_label l[] = { { "node", p->g->name },
					{ "state", rf_str(rf_pod_state_name(i)) } };

		rf_metrics_int(&p->m, "ringfence_node_pods", RF_METRIC_GAUGE,
			       "Pods on this node by state.", l, 2, (int64_t)by_state[i]);
	}
}

void rf_agent_metrics(struct rf_agent *g, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct page p = { .g = g };

	rf_metrics_init(&p.m, &a);
	rf_cards_metrics(&p.m, &g->cards, g->name);
	rf_mps_metrics(&p.m, g->mps, g->name);
	pods(&p);
	rf_metrics_process(&p.m);
	rf_metrics_write(&p.m, out);
}
