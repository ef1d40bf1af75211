/* A program that is not linked to any driver, with libringfence preloaded. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "plain: line %d: %s\n", __LINE__, #cond);                  \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

int main(void)
{
	void *lib;

	CHECK(dlsym(RTLD_DEFAULT, "dlopen") != NULL); /* the fence is asked, and brings no driver */
	CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
	dlerror();
	CHECK(dlsym(RTLD_DEFAULT, "cuInit") == NULL);
	CHECK(dlerror() != NULL);
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(lib != NULL);
	CHECK(dlsym(lib, "cuInit") != NULL);
	CHECK(((int (*)(unsigned))dlsym(lib, "cuInit"))(0) == 0);
	return 0;
}
