/* swap: puts the driver's own functions in the place of a preloaded library's, everywhere in this process where the
 * library's are kept, and back. So a program such as PyTorch can do the same work with and without the library in
 * turn, in one process: two processes of it differ by more than the library costs.
 *   cc -O2 -shared -fPIC -o swap.so swap.c;  ctypes.CDLL("swap.so").swap_find()
 * Only for a program between two pieces of its work, with nothing allocated under one and freed under the other. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver.h"

enum { FUNCTIONS_MOST = 4096, PLACES_MOST = 65536, PIECE = 1 << 20, TABLES_MOST = 256 << 20 };

static struct {
	struct {
		void *hook, *own;
	} functions[FUNCTIONS_MOST];
	struct {
		void **at;
		int function;
	} places[PLACES_MOST];
	void *piece[PIECE / sizeof(void *)];
	int function_count, place_count;
} swap;

static int by_hook(const void *a, const void *b)
{
	const void *const *x = a, *const *y = b;

	return (*x > *y) - (*x < *y);
}

static void find_functions(const struct driver *d)
{
	int n = 0;

	for (uint32_t i = 0; i < d->count && n < FUNCTIONS_MOST; i++) {
		void *own = driver_own_at(d, i), *hook = own ? dlsym(d->lib, driver_name(d, i)) : NULL;

		if (!hook || hook == own)
			continue;
		int at = n++; /* sorted here: qsort() leaves copies on the heap, which would be found as places */

		for (; at > 0 && swap.functions[at - 1].hook > hook; at--)
			swap.functions[at] = swap.functions[at - 1];
		swap.functions[at].hook = hook;
		swap.functions[at].own = own;
	}
	swap.function_count = n;
}

static int find_in(char *from, char *to)
{
	const void *least = swap.functions[0].hook, *most = swap.functions[swap.function_count - 1].hook;
	struct iovec mine = {swap.piece, 0}, theirs;

	for (; from < to; from += PIECE) {
		theirs.iov_base = from;
		theirs.iov_len = mine.iov_len = to - from < PIECE ? (size_t)(to - from) : PIECE;
		ssize_t n = process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0); /* a page nobody may read is no fault */

		for (ssize_t i = 0; i < n / (ssize_t)sizeof(void *); i++) {
			const void *found;

			if (swap.piece[i] < least || swap.piece[i] > most)
				continue;
			found = bsearch(&swap.piece[i], swap.functions, (size_t)swap.function_count,
					sizeof swap.functions[0], by_hook);
			if (!found)
				continue;
			if (swap.place_count == PLACES_MOST)
				return -1;
			swap.places[swap.place_count].at = (void **)from + i;
			swap.places[swap.place_count++].function =
				(int)((const char *)found - (const char *)swap.functions) / (int)sizeof swap.functions[0];
		}
	}
	return 0;
}

/* The number of places that hold a function of the library's; 0 when there is no library, -1 on an error. */
int swap_find(void)
{
	Dl_info hooks = {0}, me = {0};
	struct driver driver;
	char line[4352];
	int rc = 0;

	swap.place_count = 0;
	if (!driver_open(&driver))
		return -1;
	find_functions(&driver);
	if (swap.function_count == 0)
		return 0;
	dladdr(swap.functions[0].hook, &hooks);
	dladdr((void *)&swap, &me);
	FILE *maps = fopen("/proc/self/maps", "r");

	if (!maps)
		return -1;
	const char *skip = hooks.dli_fname ? hooks.dli_fname : "-";
	char *bss_end = NULL; /* what follows a library's mappings without a name is its own */

	while (rc == 0 && fgets(line, sizeof line, maps)) {
		char rights[5] = "", path[4096] = "", *from, *to;

		if (sscanf(line, "%p-%p %4s %*s %*s %*s %4095s", (void **)&from, (void **)&to, rights, path) < 3)
			continue;
		if (strcmp(path, skip) == 0 || strcmp(path, me.dli_fname) == 0 || (!*path && from == bss_end)) {
			bss_end = to;
			continue;
		}
		if (to - from <= TABLES_MOST && rights[0] == 'r' && rights[1] == 'w' && rights[3] == 'p' && strncmp(path, "/dev/", 5) != 0 &&
		    strncmp(path, "[stack", 6) != 0)
			rc = find_in(from, to);
	}
	fclose(maps);
	return rc < 0 ? -1 : swap.place_count;
}

/* hooked: the library's functions; else the driver's own. A place that holds something else by now is left alone. */
void swap_to(int hooked)
{
	for (int i = 0; i < swap.place_count; i++) {
		void *hook = swap.functions[swap.places[i].function].hook;
		void *own = swap.functions[swap.places[i].function].own;

		if (*swap.places[i].at == (hooked ? own : hook))
			*swap.places[i].at = hooked ? hook : own;
	}
}
