/* Built twice: two libraries with one symbol. The first asks for the next one. */
#include <dlfcn.h>

#pragma GCC visibility push(default)
int rf_next_marker(void);
void *rf_next_ask(void);
int rf_next_other(void); /* of the second, so that it is linked at all */
#pragma GCC visibility pop

int rf_next_marker(void)
{
	return NEXT_MARK;
}

#if NEXT_MARK == 1
void *rf_next_ask(void)
{
	void *volatile p = dlsym(RTLD_NEXT, "rf_next_marker"); /* a call, not a jump */

	return p;
}
#else
int rf_next_other(void)
{
	return 0;
}
#endif
