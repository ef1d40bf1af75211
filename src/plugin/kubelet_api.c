#include "plugin/kubelet_api.h"

#include "codec/pb.h"

static void put_str(struct rf_buf *out, uint32_t number, struct rf_str s)
{
	if (s.n > 0)
		rf_pb_put_bytes(out, number, s);
}

static struct rf_str next_str(const struct rf_pb_field *f)
{
	return f->wire == RF_PB_BYTES ? f->bytes : RF_STR_EMPTY;
}

/* How often a field of bytes occurs; negative if the message is malformed. */
static int count(struct rf_str in, uint32_t number, size_t *ret, struct rf_err *err)
{
	struct rf_pb_field f;
	int rc;

	*ret = 0;
	while ((rc = rf_pb_next(&in, &f, err)) > 0)
		*ret += f.number == number && f.wire == RF_PB_BYTES;
	if (rc == 0 && *ret > RF_KAPI_ITEMS_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%zu entries; at most %d are read", *ret,
			       RF_KAPI_ITEMS_MAX);
	return rc;
}

/* All fields of that number as strings. */
static int read_strings(struct rf_arena *a, struct rf_str in, uint32_t number,
			struct rf_kapi_ids *ret, struct rf_err *err)
{
	struct rf_pb_field f;

	*ret = (struct rf_kapi_ids){ .n = 0 };
	size_t n;
	if (count(in, number, &n, err) < 0)
		return -err->code;
	ret->at = rf_arena_array(a, struct rf_str, n + 1);
	while (rf_pb_next(&in, &f, err) > 0)
		if (f.number == number && f.wire == RF_PB_BYTES)
			ret->at[ret->n++] = f.bytes;
	return 0;
}

static bool has_id(const struct rf_kapi_ids *s, struct rf_str id)
{
	for (size_t i = 0; i < s->n; i++)
		if (rf_str_eq(s->at[i], id))
			return true;
	return false;
}

bool rf_kapi_same_ids(const struct rf_kapi_ids *a, const struct rf_kapi_ids *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!has_id(b, a->at[i]) || !has_id(a, b->at[i]))
			return false;
	return true;
}

/* --- device plugin ---------------------------------------------------------------------------- */

void rf_kapi_options(struct rf_buf *out)
{
	rf_pb_put_varint(out, 1, 1);
}

void rf_kapi_register(struct rf_buf *out, struct rf_str endpoint, struct rf_str resource)
{
	rf_auto(buf) options = RF_BUF_INIT;

	rf_kapi_options(&options);
	put_str(out, 1, RF_LIT("v1beta1"));
	put_str(out, 2, endpoint);
	put_str(out, 3, resource);
	rf_pb_put_bytes(out, 4, rf_buf_str(&options));
}

void rf_kapi_device(struct rf_buf *out, struct rf_str id, bool healthy)
{
	rf_auto(buf) d = RF_BUF_INIT;

	put_str(&d, 1, id);
	put_str(&d, 2, healthy ? RF_LIT("Healthy") : RF_LIT("Unhealthy"));
	rf_pb_put_bytes(out, 1, rf_buf_str(&d));
}

int rf_kapi_read_allocate(struct rf_arena *a, struct rf_str in, struct rf_kapi_ids **ret,
			  size_t *ret_n, struct rf_err *err)
{
	struct rf_kapi_ids containers;

	if (read_strings(a, in, 1, &containers, err) < 0)
		return rf_wrap(err, "AllocateRequest");
	*ret = rf_arena_array(a, struct rf_kapi_ids, containers.n + 1);
	for (size_t i = 0; i < containers.n; i++)
		if (read_strings(a, containers.at[i], 1, &(*ret)[i], err) < 0)
			return rf_wrap(err, "AllocateRequest");
	*ret_n = containers.n;
	return 0;
}

void rf_kapi_allocated(struct rf_buf *out, struct rf_str cdi_device)
{
	rf_auto(buf) device = RF_BUF_INIT;
	rf_auto(buf) container = RF_BUF_INIT;

	put_str(&device, 1, cdi_device);
	rf_pb_put_bytes(&container, 5, rf_buf_str(&device));
	rf_pb_put_bytes(out, 1, rf_buf_str(&container));
}

int rf_kapi_read_prestart(struct rf_arena *a, struct rf_str in, struct rf_kapi_ids *ret,
			  struct rf_err *err)
{
	return read_strings(a, in, 1, ret, err) < 0 ? rf_wrap(err, "PreStartContainerRequest") : 0;
}

static int64_t varint_of(struct rf_str in, uint32_t number)
{
	struct rf_pb_field f;
	int64_t v = 0;

	while (rf_pb_next(&in, &f, NULL) > 0)
		if (f.number == number && f.wire == RF_PB_VARINT)
			v = (int64_t)f.value;
	return v;
}

static void prefer(struct rf_arena *a, const struct rf_kapi_ids *available,
		   const struct rf_kapi_ids *must, size_t size, struct rf_buf *out)
{
	struct rf_kapi_ids chosen = { .at = rf_arena_array(a, struct rf_str,
							   available->n + must->n + 1) };

	for (size_t i = 0; i < must->n && chosen.n < size; i++)
		if (!has_id(&chosen, must->at[i]))
			chosen.at[chosen.n++] = must->at[i];
	for (size_t i = 0; i < available->n && chosen.n < size; i++)
		if (!has_id(&chosen, available->at[i]))
			chosen.at[chosen.n++] = available->at[i];
	for (size_t i = 0; i < chosen.n; i++)
		put_str(out, 1, chosen.at[i]);
}

int rf_kapi_prefer(struct rf_arena *a, struct rf_str in, struct rf_buf *out, struct rf_err *err)
{
	struct rf_kapi_ids containers, available, must;

	if (read_strings(a, in, 1, &containers, err) < 0)
		return rf_wrap(err, "PreferredAllocationRequest");
	for (size_t i = 0; i < containers.n; i++) {
		rf_auto(buf) one = RF_BUF_INIT;
		struct rf_str c = containers.at[i];

		if (read_strings(a, c, 1, &available, err) < 0 ||
		    read_strings(a, c, 2, &must, err) < 0)
			return rf_wrap(err, "PreferredAllocationRequest");
		prefer(a, &available, &must, (size_t)RF_MAX(varint_of(c, 3), 0), &one);
		rf_pb_put_bytes(out, 1, rf_buf_str(&one));
	}
	return 0;
}

/* --- pod-resources ---------------------------------------------------------------------------- */

struct search {
	struct rf_arena *a;
	struct rf_str resource;
	const struct rf_kapi_ids *ids;
	struct rf_err *err;
};

/* ContainerDevices: a container may have several entries of one resource (one per NUMA node). */
static int container_ids(struct search *s, struct rf_str container, struct rf_kapi_ids *ret)
{
	struct rf_kapi_ids entries, ids;
	struct rf_pb_field f;

	*ret = (struct rf_kapi_ids){ .n = 0 };
	if (read_strings(s->a, container, 2, &entries, s->err) < 0)
		return -s->err->code;
	for (size_t i = 0; i < entries.n; i++) {
		struct rf_str in = entries.at[i], resource = RF_STR_EMPTY;

		while (rf_pb_next(&in, &f, s->err) > 0)
			if (f.number == 1)
				resource = next_str(&f);
		if (!rf_str_eq(resource, s->resource))
			continue;
		if (read_strings(s->a, entries.at[i], 2, &ids, s->err) < 0)
			return -s->err->code;
		if (ret->n + ids.n > RF_KAPI_ITEMS_MAX)
			return rf_fail(s->err, RF_TOO_LARGE,
				       "a container with more than %d devices", RF_KAPI_ITEMS_MAX);
		struct rf_str *all = rf_arena_array(s->a, struct rf_str, ret->n + ids.n + 1);
		if (ret->n > 0)
			memcpy(all, ret->at, ret->n * sizeof(*all));
		if (ids.n > 0)
			memcpy(all + ret->n, ids.at, ids.n * sizeof(*all));
		ret->at = all;
		ret->n += ids.n;
	}
	return 0;
}

static struct rf_str string_of(struct rf_str in, uint32_t number)
{
	struct rf_str s = RF_STR_EMPTY;
	struct rf_pb_field f;

	while (rf_pb_next(&in, &f, NULL) > 0)
		if (f.number == number)
			s = next_str(&f);
	return s;
}

/* How many containers of the pod have them; *ret is the last. */
static int search_pod(struct search *s, struct rf_str pod, struct rf_kapi_owner *ret)
{
	struct rf_kapi_ids containers, ids;
	int found = 0;

	if (read_strings(s->a, pod, 3, &containers, s->err) < 0)
		return -s->err->code;
	for (size_t i = 0; i < containers.n; i++) {
		if (container_ids(s, containers.at[i], &ids) < 0)
			return -s->err->code;
		if (ids.n == 0 || !rf_kapi_same_ids(&ids, s->ids))
			continue;
		*ret = (struct rf_kapi_owner){ .pod = string_of(pod, 1),
					       .ns = string_of(pod, 2),
					       .container = string_of(containers.at[i], 1) };
		found++;
	}
	return found;
}

int rf_kapi_find_owner(struct rf_arena *a, struct rf_str in, struct rf_str resource,
		       const struct rf_kapi_ids *ids, struct rf_kapi_owner *ret, struct rf_err *err)
{
	struct search s = { a, resource, ids, err };
	struct rf_kapi_ids pods;
	int found = 0;

	if (read_strings(a, in, 1, &pods, err) < 0)
		return rf_wrap(err, "ListPodResourcesResponse");
	for (size_t i = 0; i < pods.n; i++) {
		int rc = search_pod(&s, pods.at[i], ret);

		if (rc < 0)
			return rf_wrap(err, "ListPodResourcesResponse");
		found += rc;
	}
	if (found == 1)
		return 0;
	if (found > 1)
		return rf_fail(err, RF_CONFLICT,
			       "the kubelet knows %d containers with these devices of %.*s", found,
			       RF_STR(resource));
	return rf_fail(err, RF_NOT_FOUND,
		       "the kubelet knows no container with these devices of %.*s",
		       RF_STR(resource));
}

/* --- DRA -------------------------------------------------------------------------------------- */

void rf_kapi_plugin_info(struct rf_buf *out, struct rf_str driver, struct rf_str endpoint)
{
	put_str(out, 1, RF_LIT("DRAPlugin"));
	put_str(out, 2, driver);
	put_str(out, 3, endpoint);
	/* The kubelet takes the first that it speaks. */
	put_str(out, 4, RF_LIT("v1.DRAPlugin"));
	put_str(out, 4, RF_LIT("v1beta1.DRAPlugin"));
}

int rf_kapi_read_status(struct rf_str in, bool *ret_registered, struct rf_str *ret_reason,
			struct rf_err *err)
{
	struct rf_pb_field f;
	int rc;

	*ret_registered = false;
	*ret_reason = RF_STR_EMPTY;
	while ((rc = rf_pb_next(&in, &f, err)) > 0) {
		if (f.number == 1 && f.wire == RF_PB_VARINT)
			*ret_registered = f.value != 0;
		if (f.number == 2)
			*ret_reason = next_str(&f);
	}
	return rc < 0 ? rf_wrap(err, "RegistrationStatus") : 0;
}

int rf_kapi_read_claims(struct rf_arena *a, struct rf_str in, struct rf_kapi_claim **ret,
			size_t *ret_n, struct rf_err *err)
{
	struct rf_kapi_ids claims;
	size_t fields;

	if (read_strings(a, in, 1, &claims, err) < 0)
		return rf_wrap(err, "claims");
	*ret = rf_arena_array(a, struct rf_kapi_claim, claims.n + 1);
	for (size_t i = 0; i < claims.n; i++) {
		if (count(claims.at[i], 1, &fields, err) < 0)
			return rf_wrap(err, "claims");
		(*ret)[i] = (struct rf_kapi_claim){ .ns = string_of(claims.at[i], 1),
						    .uid = string_of(claims.at[i], 2),
						    .name = string_of(claims.at[i], 3) };
	}
	*ret_n = claims.n;
	return 0;
}

void rf_kapi_prepared_device(struct rf_buf *out, struct rf_str request, struct rf_str pool,
			     struct rf_str device, struct rf_str cdi, struct rf_str share)
{
	rf_auto(buf) d = RF_BUF_INIT;

	put_str(&d, 1, request);
	put_str(&d, 2, pool);
	put_str(&d, 3, device);
	put_str(&d, 4, cdi);
	put_str(&d, 5, share);
	rf_pb_put_bytes(out, 1, rf_buf_str(&d));
}

/* map<string, message> is a repeated entry of key 1 and value 2. */
static void put_entry(struct rf_buf *out, struct rf_str key, struct rf_str value)
{
	rf_auto(buf) entry = RF_BUF_INIT;

	put_str(&entry, 1, key);
	rf_pb_put_bytes(&entry, 2, value);
	rf_pb_put_bytes(out, 1, rf_buf_str(&entry));
}

void rf_kapi_prepared(struct rf_buf *out, struct rf_str uid, struct rf_str devices,
		      struct rf_str error)
{
	rf_auto(buf) one = RF_BUF_INIT;

	rf_buf_add(&one, devices);
	put_str(&one, 2, error);
	put_entry(out, uid, rf_buf_str(&one));
}

void rf_kapi_unprepared(struct rf_buf *out, struct rf_str uid, struct rf_str error)
{
	rf_auto(buf) one = RF_BUF_INIT;

	put_str(&one, 1, error);
	put_entry(out, uid, rf_buf_str(&one));
}
