#include "apiserver/routes.h"

#define SEGMENTS_MAX 9

struct segments {
	struct rf_str at[SEGMENTS_MAX];
	size_t n;
};

/* "/api/v1/pods" -> api, v1, pods. A slash at the end is let through; an empty segment is not. */
static bool split(struct rf_str path, struct segments *ret)
{
	ret->n = 0;
	if (path.n == 0 || path.p[0] != '/')
		return false;
	path = rf_str_skip(path, 1);
	while (path.n > 0) {
		struct rf_str one;

		rf_str_cut(&path, '/', &one);
		if (one.n == 0 || ret->n == SEGMENTS_MAX)
			return false;
		ret->at[ret->n++] = one;
	}
	return true;
}

static struct rf_str seg(const struct segments *s, size_t i)
{
	return i < s->n ? s->at[i] : RF_STR_EMPTY;
}

static int no_such(struct rf_err *err)
{
	return rf_fail(err, RF_NOT_FOUND, "the server could not find the requested resource");
}

/* Behind group and version: [namespaces/NS/]plural[/name[/sub]]; a namespace itself has the same
 * beginning as what is in it. */
static int resource(const struct segments *s, size_t i, struct rf_str group, struct rf_str version,
		    struct rf_route *ret, struct rf_err *err)
{
	bool in_ns = rf_str_is(seg(s, i), "namespaces") && s->n > i + 2 &&
		     !(group.n == 0 && rf_str_is(seg(s, i + 2), "status") && s->n == i + 3);

	if (in_ns) {
		ret->ns = seg(s, i + 1);
		i += 2;
	}
	ret->kind = rf_kind_find(group, version, seg(s, i));
	ret->name = seg(s, i + 1);
	ret->sub = seg(s, i + 2);
	if (ret->kind != NULL && !rf_str_is(version, ret->kind->version))
		ret->version = version;
	if (ret->kind == NULL || s->n > i + 3 || (in_ns && !ret->kind->namespaced))
		return no_such(err);
	if (ret->kind->namespaced && !in_ns && ret->name.n > 0)
		return no_such(err);
	if (ret->sub.n > 0 && !rf_kind_has_sub(ret->kind, ret->sub))
		return no_such(err);
	return 0;
}

static const char *verb_of_method(struct rf_str method, bool named, bool watch)
{
	if (rf_str_is(method, "GET") || rf_str_is(method, "HEAD"))
		return named ? (watch ? "watch" : "get") : (watch ? "watch" : "list");
	if (rf_str_is(method, "POST"))
		return "create";
	if (rf_str_is(method, "PUT"))
		return "update";
	if (rf_str_is(method, "PATCH"))
		return "patch";
	if (rf_str_is(method, "DELETE"))
		return named ? "delete" : "deletecollection";
	return NULL;
}

/* Which verbs make sense where; subresources that act are created, those that show are read. */
static bool verb_fits(const struct rf_route *r)
{
	struct rf_str verb = rf_str(r->verb);

	if (rf_word_in("binding eviction token", r->sub))
		return rf_str_is(verb, "create");
	if (rf_str_is(r->sub, "log"))
		return rf_str_is(verb, "get");
	if (r->sub.n > 0)
		return rf_word_in("get update patch", verb);
	if (!r->kind->stored)
		return rf_str_is(verb, "create") && r->name.n == 0;
	if (r->name.n == 0)
		return rf_word_in("list watch create deletecollection", verb) &&
		       !(r->kind->namespaced && r->ns.n == 0 &&
			 rf_word_in("create deletecollection", verb));
	return rf_word_in("get watch update patch delete", verb);
}

int rf_route_parse(struct rf_str method, struct rf_str path, bool watch, struct rf_route *ret,
		   struct rf_err *err)
{
	struct segments s;

	*ret = (struct rf_route){ .ns = RF_STR_EMPTY, .name = RF_STR_EMPTY, .sub = RF_STR_EMPTY,
				  .version = RF_STR_EMPTY };
	if (!split(path, &s))
		return no_such(err);
	if (rf_str_is(seg(&s, 0), "api")) {
		if (resource(&s, 2, RF_STR_EMPTY, seg(&s, 1), ret, err) < 0)
			return -err->code;
	} else if (rf_str_is(seg(&s, 0), "apis")) {
		if (resource(&s, 3, seg(&s, 1), seg(&s, 2), ret, err) < 0)
			return -err->code;
	} else {
		return no_such(err);
	}
	ret->verb = verb_of_method(method, ret->name.n > 0, watch);
	if (ret->verb == NULL || !verb_fits(ret))
		return rf_fail(err, RF_NOT_ALLOWED,
			       "the server does not allow this method on the requested resource");
	return 0;
}
