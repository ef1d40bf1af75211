/* Small things the language lacks. */
#ifndef RF_BASE_MACRO_H
#define RF_BASE_MACRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define RF_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define RF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RF_UNUSED __attribute__((unused))
#define RF_MUST_USE __attribute__((warn_unused_result))
/* Left as it is although the compiler zeroes locals: large, and written before it is read. */
#define RF_UNINITIALIZED __attribute__((uninitialized))
#define RF_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* Always on, in release builds too: for what cannot happen unless ringfence itself is wrong.
 * Never for anything a caller, a tenant or the machine can bring about. */
#define rf_assert(cond) ((cond) ? (void)0 : rf_assert_failed(#cond, __FILE__, __LINE__, __func__))
_Noreturn void rf_assert_failed(const char *cond, const char *file, int line, const char *func);

/* rf_auto(buf) b = RF_BUF_INIT;  calls rf_buf_done(&b) when b goes out of scope.
 * Works for every `struct rf_x` that has an `rf_x_done(struct rf_x *)`. */
#define rf_auto(name) __attribute__((cleanup(rf_##name##_done))) struct rf_##name

/* rf_auto_ptr(thing) t = NULL;  calls rf_thing_free(t); rf_thing_free must accept NULL.
 * The room declares it once with RF_DEFINE_AUTO_PTR(thing). */
#define RF_DEFINE_AUTO_PTR(name)                                                                   \
	static inline RF_UNUSED void rf_##name##_freep(struct rf_##name **p)                       \
	{                                                                                          \
		rf_##name##_free(*p);                                                              \
	}                                                                                          \
	struct rf_##name
#define rf_auto_ptr(name) __attribute__((cleanup(rf_##name##_freep))) struct rf_##name *

static inline void rf_free_charp(char **p)
{
	free(*p);
}
static inline void rf_close_fdp(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
/* rf_auto_free char *s = NULL;   rf_auto_close int fd = -1; */
#define rf_auto_free __attribute__((cleanup(rf_free_charp)))
#define rf_auto_close __attribute__((cleanup(rf_close_fdp)))

/* Moves a pointer (or a descriptor) out of an rf_auto local, so that it is not released. */
#define rf_take(ptr)                                                                               \
	({                                                                                         \
		__auto_type rf_taken_ = (ptr);                                                     \
		(ptr) = NULL;                                                                      \
		rf_taken_;                                                                         \
	})
#define rf_take_fd(fd)                                                                             \
	({                                                                                         \
		int rf_taken_ = (fd);                                                              \
		(fd) = -1;                                                                         \
		rf_taken_;                                                                         \
	})

/* Memory for ringfence's own bookkeeping: the process ends when the machine has none left.
 * What a tenant sizes goes through a capped arena instead (base/arena.h). */
void *rf_alloc(size_t size) RF_MUST_USE;               /* zeroed */
void *rf_realloc(void *old, size_t size) RF_MUST_USE;
char *rf_strdup(const char *s) RF_MUST_USE;
#define rf_new(type) ((type *)rf_alloc(sizeof(type)))

#endif
