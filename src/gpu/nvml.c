#include "gpu/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

const char *rf_nvml_text(const struct rf_nvml *n, nvmlReturn_t code)
{
	return n->nvmlErrorString ? n->nvmlErrorString(code) : "NVML error";
}

static int find_needed(void *library, const char *name, void *slot, struct rf_err *err)
{
	void *p = dlsym(library, name);

	if (p == NULL)
		return rf_fail(err, RF_UNAVAILABLE,
			       "libnvidia-ml.so.1 has no %s; is the driver too old?", name);
	memcpy(slot, &p, sizeof(p));
	return 0;
}

static void find_welcome(void *library, const char *name, void *slot)
{
	void *p = dlsym(library, name);

	memcpy(slot, &p, sizeof(p));
}

int rf_nvml_load(const char *lib_dir, struct rf_nvml *ret, struct rf_err *err)
{
	char path[PATH_MAX];
	int rc = 0;

	snprintf(path, sizeof(path), "%s%slibnvidia-ml.so.1", lib_dir ? lib_dir : "",
		 lib_dir ? "/" : "");
	*ret = (struct rf_nvml){ .library = dlopen(path, RTLD_NOW | RTLD_LOCAL) };
	if (ret->library == NULL)
		return rf_fail(err, RF_UNAVAILABLE, "no NVIDIA driver: %s", dlerror());
#define FIND_NEEDED(name) rc = rc < 0 ? rc : find_needed(ret->library, #name, &ret->name, err);
	RF_NVML_NEEDED(FIND_NEEDED)
#define FIND_WELCOME(name) find_welcome(ret->library, #name, &ret->name);
	RF_NVML_WELCOME(FIND_WELCOME)
	if (rc < 0) {
		dlclose(ret->library);
		ret->library = NULL;
	}
	return rc;
}
