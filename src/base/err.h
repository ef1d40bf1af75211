/* Errors: a value on the caller's stack, last parameter, no heap.
 *
 *	int rf_thing_do(..., struct rf_err *err)
 *	{
 *		if (bad)
 *			return rf_fail(err, RF_INVALID, "thing %s: ...; do this instead", name);
 *		if (rf_other_do(..., err) < 0)
 *			return rf_wrap(err, "do %s", name);      // "do x: what other said"
 *		return 0;
 *	}
 *
 * A function returns 0 or the negative code; out-parameters are written on success only.
 * err may be NULL where the caller does not care for the text. */
#ifndef RF_BASE_ERR_H
#define RF_BASE_ERR_H

#include "base/macro.h"

enum rf_code {
	RF_OK = 0,
	RF_BAD_REQUEST,     /* cannot be understood: syntax, encoding */
	RF_INVALID,         /* understood, and wrong: a field's value */
	RF_UNAUTHENTICATED, /* who are you? */
	RF_FORBIDDEN,       /* known, and not allowed: RBAC, policy, quota */
	RF_NOT_FOUND,
	RF_EXISTS,
	RF_CONFLICT, /* somebody else wrote first */
	RF_GONE,     /* a resourceVersion that history no longer holds */
	RF_TOO_LARGE,
	RF_NOT_ALLOWED, /* the method does not apply to this resource */
	RF_UNSUPPORTED, /* a media type or feature not served */
	RF_EXHAUSTED,   /* a cap was reached; later may work */
	RF_TIMEOUT,
	RF_UNAVAILABLE, /* the other side is not there */
	RF_SYSTEM,      /* the operating system said no */
	RF_INTERNAL,    /* ringfence's own fault */
	RF_CODE_COUNT
};

#define RF_ERR_MAX 1024

struct rf_err {
	int code; /* positive, an enum rf_code */
	char msg[RF_ERR_MAX];
};

#define RF_ERR_INIT { .code = RF_OK, .msg = "" }

/* Fills *err and returns -code. */
int rf_fail(struct rf_err *err, enum rf_code code, const char *fmt, ...) RF_PRINTF(3, 4);
/* As rf_fail with RF_SYSTEM, and strerror(errno) after the text. Keeps errno. */
int rf_fail_errno(struct rf_err *err, const char *fmt, ...) RF_PRINTF(2, 3);
/* Puts "text: " before the message already in *err and returns -err->code. */
int rf_wrap(struct rf_err *err, const char *fmt, ...) RF_PRINTF(2, 3);

/* The one table that says what a code means elsewhere. */
struct rf_code_info {
	const char *name;        /* "not-found" */
	int http;                /* 404 */
	const char *kube_reason; /* "NotFound" */
	int grpc;                /* 5 */
	int exit;                /* exit status of the command line */
};
const struct rf_code_info *rf_code_info(int code);
/* The code for an HTTP status and a Kubernetes reason ("" if none was given). */
enum rf_code rf_code_from_http(int status, const char *kube_reason);

#endif
