/* Compiled once per library: SIM_SYMBOLS names the list, SIM_ANSWER what every call returns. */
#include "sim/unsupported.h"

#include <stddef.h>
#include <string.h>

#define U(name)                                                                                    \
	__attribute__((visibility("default"))) int name(void);                                     \
	int name(void)                                                                             \
	{                                                                                          \
		return SIM_ANSWER;                                                                 \
	}
#include SIM_SYMBOLS
#undef U

static const struct {
	const char *name;
	int (*function)(void);
} entries[] = {
#define U(name) { #name, name },
#include SIM_SYMBOLS
#undef U
};

void *sim_unsupported(const char *name)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (strcmp(entries[i].name, name) == 0)
			return (void *)entries[i].function;
	return NULL;
}
