/* An auditor of the dynamic linker that keeps libringfence out. */
#include <link.h>
#include <stddef.h>
#include <string.h>

#pragma GCC visibility push(default)
unsigned int la_version(unsigned int version);
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag);
#pragma GCC visibility pop

unsigned int la_version(unsigned int version)
{
	return version;
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
	return strstr(name, "libringfence") ? NULL : (char *)(uintptr_t)name;
}
