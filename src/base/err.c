#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct rf_code_info CODES[RF_CODE_COUNT] = {
	[RF_OK] = { "ok", 200, "", 0, 0 },
	[RF_BAD_REQUEST] = { "bad-request", 400, "BadRequest", 3, 2 },
	[RF_INVALID] = { "invalid", 422, "Invalid", 3, 2 },
	[RF_UNAUTHENTICATED] = { "unauthenticated", 401, "Unauthorized", 16, 4 },
	[RF_FORBIDDEN] = { "forbidden", 403, "Forbidden", 7, 4 },
	[RF_NOT_FOUND] = { "not-found", 404, "NotFound", 5, 3 },
	[RF_EXISTS] = { "exists", 409, "AlreadyExists", 6, 5 },
	[RF_CONFLICT] = { "conflict", 409, "Conflict", 10, 5 },
	[RF_GONE] = { "gone", 410, "Expired", 11, 1 },
	[RF_TOO_LARGE] = { "too-large", 413, "RequestEntityTooLarge", 8, 2 },
	[RF_NOT_ALLOWED] = { "not-allowed", 405, "MethodNotAllowed", 12, 2 },
	[RF_UNSUPPORTED] = { "unsupported", 415, "UnsupportedMediaType", 12, 2 },
	[RF_EXHAUSTED] = { "exhausted", 429, "TooManyRequests", 8, 1 },
	[RF_TIMEOUT] = { "timeout", 504, "Timeout", 4, 1 },
	[RF_UNAVAILABLE] = { "unavailable", 503, "ServiceUnavailable", 14, 1 },
	[RF_SYSTEM] = { "system", 500, "InternalError", 13, 1 },
	[RF_INTERNAL] = { "internal", 500, "InternalError", 13, 1 },
};

const struct rf_code_info *rf_code_info(int code)
{
	if (code < 0)
		code = -code;
	return &CODES[code < RF_CODE_COUNT ? code : RF_INTERNAL];
}

enum rf_code rf_code_from_http(int status, const char *kube_reason)
{
	if (status >= 200 && status < 300)
		return RF_OK;
	for (int i = 1; i < RF_CODE_COUNT; i++)
		if (CODES[i].http == status && strcmp(CODES[i].kube_reason, kube_reason) == 0)
			return (enum rf_code)i;
	if (status == 409)
		return RF_CONFLICT;
	for (int i = 1; i < RF_CODE_COUNT; i++)
		if (CODES[i].http == status)
			return (enum rf_code)i;
	return status >= 400 && status < 500 ? RF_BAD_REQUEST : RF_INTERNAL;
}

int rf_fail(struct rf_err *err, enum rf_code code, const char *fmt, ...)
{
	va_list ap;

	if (err != NULL) {
		err->code = (int)code;
		va_start(ap, fmt);
		vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
	}
	return -(int)code;
}

int rf_fail_errno(struct rf_err *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (err != NULL) {
		size_t n;

		err->code = RF_SYSTEM;
		va_start(ap, fmt);
		vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
		n = strlen(err->msg);
		snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror(saved));
	}
	errno = saved;
	return -RF_SYSTEM;
}

int rf_wrap(struct rf_err *err, const char *fmt, ...)
{
	char inner[RF_ERR_MAX];
	va_list ap;
	size_t n;

	if (err == NULL)
		return -RF_INTERNAL;
	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", inner);
	return -err->code;
}
