/* crypto.x509.* and crypto.parse_private_keys: certificates, requests and keys as the objects that
 * Go's JSON encoder makes of its own structures, because that is what policies are written against. */
#include "policy/rego/builtin_keys.h"

#include <arpa/inet.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#define CERTS_MAX 100

RB_OSSL_TYPE(X509_STORE, X509_STORE_free);
RB_OSSL_TYPE(X509_STORE_CTX, X509_STORE_CTX_free);
RB_OSSL_TYPE(PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free);

struct rf_rb_certs {
	X509 *at[CERTS_MAX];
	size_t n;
};

static void rf_rb_certs_done(struct rf_rb_certs *c)
{
	for (size_t i = 0; i < c->n; i++)
		X509_free(c->at[i]);
	ERR_clear_error();
}

/* --- small parts --- */

static void put_base64(struct rb_object *o, const char *key, const void *p, size_t n)
{
	struct rb_text out = { .e = o->e };
	struct rf_rv v;

	rb_base64_add(&out, rf_str_n(p, n), false, true);
	if (rb_text_value(&out, &v) != RF_RB_OK)
		o->full = true;
	else
		rb_put(o, key, v);
}

static void put_octets(struct rb_object *o, const char *key, const ASN1_STRING *s)
{
	if (s == NULL)
		rb_put(o, key, RF_RV_NIL);
	else
		put_base64(o, key, ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s));
}

/* DER that an i2d function writes, as base64. */
#define PUT_DER(o, key, i2d, object)                                                               \
	do {                                                                                       \
		unsigned char *der_ = NULL;                                                        \
		int n_ = i2d((object), &der_);                                                     \
		put_base64((o), (key), der_, n_ < 0 ? 0 : (size_t)n_);                             \
		OPENSSL_free(der_);                                                                \
	} while (0)

/* Numbers of large keys have more digits than Rego's may have here: those are strings. */
static void put_bn(struct rb_object *o, const char *key, const BIGNUM *n)
{
	char *text = n == NULL ? NULL : BN_bn2dec(n);
	struct rf_rv v;

	if (text == NULL || rb_string(o->e, rf_str(text), &v) != RF_RB_OK ||
	    (v.n <= RF_RN_DIGITS_MAX && !rf_rn_parse(o->e->arena, rf_rv_text(v), &v)))
		o->full = true;
	else
		rb_put(o, key, v);
	OPENSSL_free(text);
}

static void put_integer(struct rb_object *o, const char *key, const ASN1_INTEGER *i)
{
	rb_ossl(BIGNUM) n = ASN1_INTEGER_to_BN(i, NULL);

	put_bn(o, key, n);
}

/* NULL where Go has a nil slice: nothing was added. */
static void put_list(struct rb_object *o, const char *key, struct rf_rv_grow *g)
{
	rb_put(o, key, g->n == 0 ? RF_RV_NIL : rf_rv_grown_array(g));
}

static void push(struct rb_object *o, struct rf_rv_grow *g, struct rf_rv v)
{
	if (!rf_rb_spend(o->e, 1) || !rf_rv_push(g, o->e->arena, v))
		o->full = true;
}

static void push_str(struct rb_object *o, struct rf_rv_grow *g, struct rf_str s)
{
	struct rf_rv v;

	if (rb_string(o->e, s, &v) != RF_RB_OK)
		o->full = true;
	else
		push(o, g, v);
}

static struct rf_rv oid_value(struct rb_object *o, const ASN1_OBJECT *oid)
{
	struct rf_rv_grow parts = { 0 };
	char text[200];
	struct rf_str rest, part;
	bool more = true;
	int64_t v;

	OBJ_obj2txt(text, sizeof(text), oid, 1);
	rest = rf_str(text);
	while (more) {
		more = rf_str_cut(&rest, '.', &part);
		push(o, &parts, rf_rv_int(rf_str_int(part, &v, NULL) < 0 ? 0 : v));
	}
	return rf_rv_grown_array(&parts);
}

static struct rf_rv object_of(struct rb_object *parent, struct rb_object *o)
{
	struct rf_rv v = RF_RV_NIL;

	if (rb_object_value(o, &v) != RF_RB_OK)
		parent->full = true;
	return v;
}

/* --- names --- */

static const struct {
	int nid;
	const char *name;
} name_parts[] = {
	{ NID_countryName, "Country" },		  { NID_organizationName, "Organization" },
	{ NID_organizationalUnitName, "OrganizationalUnit" }, { NID_localityName, "Locality" },
	{ NID_stateOrProvinceName, "Province" },  { NID_streetAddress, "StreetAddress" },
	{ NID_postalCode, "PostalCode" },
};

static struct rf_str entry_text(X509_NAME_ENTRY *entry, unsigned char **utf8)
{
	int n = ASN1_STRING_to_UTF8(utf8, X509_NAME_ENTRY_get_data(entry));

	return n < 0 ? RF_STR_EMPTY : rf_str_n((char *)*utf8, (size_t)n);
}

/* The last value of that kind, or "". */
static void put_single(struct rb_object *o, const char *key, X509_NAME *name, int nid)
{
	unsigned char *utf8 = NULL;
	int at = -1, last = -1;

	while ((at = X509_NAME_get_index_by_NID(name, nid, at)) >= 0)
		last = at;
	rb_put_str(o, key,
		   last < 0 ? RF_STR_EMPTY : entry_text(X509_NAME_get_entry(name, last), &utf8));
	OPENSSL_free(utf8);
}

static void put_name_list(struct rb_object *o, const char *key, X509_NAME *name, int nid)
{
	struct rf_rv_grow list = { 0 };

	for (int at = -1; (at = X509_NAME_get_index_by_NID(name, nid, at)) >= 0;) {
		unsigned char *utf8 = NULL;

		push_str(o, &list, entry_text(X509_NAME_get_entry(name, at), &utf8));
		OPENSSL_free(utf8);
	}
	put_list(o, key, &list);
}

static void put_names(struct rb_object *o, X509_NAME *name)
{
	struct rf_rv_grow list = { 0 };

	for (int i = 0; i < X509_NAME_entry_count(name) && !o->full; i++) {
		X509_NAME_ENTRY *entry = X509_NAME_get_entry(name, i);
		struct rb_object one = { .e = o->e };
		unsigned char *utf8 = NULL;

		rb_put(&one, "Type", oid_value(&one, X509_NAME_ENTRY_get_object(entry)));
		rb_put_str(&one, "Value", entry_text(entry, &utf8));
		OPENSSL_free(utf8);
		push(o, &list, object_of(o, &one));
	}
	put_list(o, "Names", &list);
}

static void put_name(struct rb_object *parent, const char *key, X509_NAME *name)
{
	struct rb_object o = { .e = parent->e };

	for (size_t i = 0; i < RF_COUNT(name_parts); i++)
		put_name_list(&o, name_parts[i].name, name, name_parts[i].nid);
	put_single(&o, "SerialNumber", name, NID_serialNumber);
	put_single(&o, "CommonName", name, NID_commonName);
	put_names(&o, name);
	rb_put(&o, "ExtraNames", RF_RV_NIL);
	rb_put(parent, key, object_of(parent, &o));
}

static void put_time(struct rb_object *o, const char *key, const ASN1_TIME *t)
{
	struct tm tm = { 0 };
	char text[80];

	if (ASN1_TIME_to_tm(t, &tm) != 1) {
		rb_put(o, key, RF_RV_NIL);
		return;
	}
	(void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
		       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	rb_put_str(o, key, rf_str(text));
}

/* --- keys and algorithms, by Go's numbers --- */

static int signature_algorithm(const X509_ALGOR *alg)
{
	static const struct {
		int nid, go;
	} known[] = {
		{ NID_md2WithRSAEncryption, 1 },    { NID_md5WithRSAEncryption, 2 },
		{ NID_sha1WithRSAEncryption, 3 },   { NID_sha256WithRSAEncryption, 4 },
		{ NID_sha384WithRSAEncryption, 5 }, { NID_sha512WithRSAEncryption, 6 },
		{ NID_dsaWithSHA1, 7 },		    { NID_dsa_with_SHA256, 8 },
		{ NID_ecdsa_with_SHA1, 9 },	    { NID_ecdsa_with_SHA256, 10 },
		{ NID_ecdsa_with_SHA384, 11 },	    { NID_ecdsa_with_SHA512, 12 },
		{ NID_rsassaPss, 13 },		    { NID_ED25519, 16 },
	};
	const ASN1_OBJECT *oid = NULL;

	X509_ALGOR_get0(&oid, NULL, NULL, alg);
	for (size_t i = 0; i < RF_COUNT(known); i++)
		if (oid != NULL && OBJ_obj2nid(oid) == known[i].nid)
			return known[i].go;
	return 0;
}

static int key_algorithm(EVP_PKEY *key)
{
	switch (key == NULL ? 0 : EVP_PKEY_get_base_id(key)) {
	case EVP_PKEY_RSA:
		return 1;
	case EVP_PKEY_DSA:
		return 2;
	case EVP_PKEY_EC:
		return 3;
	case EVP_PKEY_ED25519:
		return 4;
	}
	return 0;
}

static void put_key_number(struct rb_object *o, const char *key, EVP_PKEY *pkey, const char *name)
{
	rb_ossl(BIGNUM) n = NULL;

	if (rb_key_number(pkey, name, &n))
		put_bn(o, key, n);
}

static struct rf_rv empty_object(void)
{
	return (struct rf_rv){ .type = RF_RV_OBJECT };
}

static void put_public_numbers(struct rb_object *o, EVP_PKEY *key)
{
	if (key_algorithm(key) == 1) {
		put_key_number(o, "N", key, OSSL_PKEY_PARAM_RSA_N);
		put_key_number(o, "E", key, OSSL_PKEY_PARAM_RSA_E);
	} else {
		rb_put(o, "Curve", empty_object());
		put_key_number(o, "X", key, OSSL_PKEY_PARAM_EC_PUB_X);
		put_key_number(o, "Y", key, OSSL_PKEY_PARAM_EC_PUB_Y);
	}
}

static void put_public_key(struct rb_object *parent, EVP_PKEY *key)
{
	struct rb_object o = { .e = parent->e };
	unsigned char raw[64];
	size_t n = sizeof(raw);
	int kind = key_algorithm(key);

	if (kind == 1 || kind == 3) {
		put_public_numbers(&o, key);
		rb_put(parent, "PublicKey", object_of(parent, &o));
	} else if (kind == 4 && EVP_PKEY_get_raw_public_key(key, raw, &n) == 1) {
		put_base64(parent, "PublicKey", raw, n);
	} else {
		rb_put(parent, "PublicKey", RF_RV_NIL);
	}
}

/* --- extensions --- */

static void put_extensions(struct rb_object *o, const STACK_OF(X509_EXTENSION) *list)
{
	struct rf_rv_grow out = { 0 };

	for (int i = 0; i < sk_X509_EXTENSION_num(list) && !o->full; i++) {
		X509_EXTENSION *x = sk_X509_EXTENSION_value(list, i);
		struct rb_object one = { .e = o->e };

		rb_put(&one, "Id", oid_value(&one, X509_EXTENSION_get_object(x)));
		rb_put(&one, "Critical", rf_rv_bool(X509_EXTENSION_get_critical(x) > 0));
		put_octets(&one, "Value", X509_EXTENSION_get_data(x));
		push(o, &out, object_of(o, &one));
	}
	put_list(o, "Extensions", &out);
	rb_put(o, "ExtraExtensions", RF_RV_NIL);
}

static struct rf_str asn1_text(const ASN1_STRING *s)
{
	return rf_str_n((const char *)ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s));
}

static void push_ip(struct rb_object *o, struct rf_rv_grow *g, struct rf_str ip)
{
	char text[INET6_ADDRSTRLEN];

	if (ip.n != 4 && ip.n != 16)
		return;
	if (inet_ntop(ip.n == 4 ? AF_INET : AF_INET6, ip.p, text, sizeof(text)) != NULL)
		push_str(o, g, rf_str(text));
}

/* Go's url.URL, field by field. */
static void push_uri(struct rb_object *o, struct rf_rv_grow *g, struct rf_str text)
{
	struct rb_object one = { .e = o->e };
	struct rb_url u;

	if (rb_url_parse(o->e, text, &u, NULL) != RF_RB_OK)
		return;
	rb_put_str(&one, "Scheme", u.scheme);
	rb_put_str(&one, "Opaque", u.opaque);
	rb_put(&one, "User", u.has_user ? empty_object() : RF_RV_NIL);
	rb_put_str(&one, "Host", u.host);
	rb_put_str(&one, "Path", u.path);
	rb_put_str(&one, "RawPath", u.raw_path);
	rb_put(&one, "OmitHost", rf_rv_bool(false));
	rb_put(&one, "ForceQuery", rf_rv_bool(u.force_query));
	rb_put_str(&one, "RawQuery", u.raw_query);
	rb_put_str(&one, "Fragment", u.fragment);
	rb_put_str(&one, "RawFragment", RF_STR_EMPTY);
	push(o, g, object_of(o, &one));
}

static void put_alt_names(struct rb_object *o, GENERAL_NAMES *names, bool uri_strings)
{
	struct rf_rv_grow dns = { 0 }, email = { 0 }, ip = { 0 }, uri = { 0 }, text = { 0 };

	for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names) && !o->full; i++) {
		int type;
		ASN1_STRING *s = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

		if (type == GEN_DNS)
			push_str(o, &dns, asn1_text(s));
		else if (type == GEN_EMAIL)
			push_str(o, &email, asn1_text(s));
		else if (type == GEN_IPADD)
			push_ip(o, &ip, asn1_text(s));
		else if (type == GEN_URI) {
			push_uri(o, &uri, asn1_text(s));
			push_str(o, &text, asn1_text(s));
		}
	}
	put_list(o, "DNSNames", &dns);
	put_list(o, "EmailAddresses", &email);
	put_list(o, "IPAddresses", &ip);
	put_list(o, "URIs", &uri);
	if (uri_strings)
		put_list(o, "URIStrings", &text);
	GENERAL_NAMES_free(names);
}

static const struct {
	const char *name;
	int nid, go;
} usages[] = {
	{ "KeyUsageAny", NID_anyExtendedKeyUsage, 0 },
	{ "KeyUsageServerAuth", NID_server_auth, 1 },
	{ "KeyUsageClientAuth", NID_client_auth, 2 },
	{ "KeyUsageCodeSigning", NID_code_sign, 3 },
	{ "KeyUsageEmailProtection", NID_email_protect, 4 },
	{ "KeyUsageIPSECEndSystem", NID_ipsecEndSystem, 5 },
	{ "KeyUsageIPSECTunnel", NID_ipsecTunnel, 6 },
	{ "KeyUsageIPSECUser", NID_ipsecUser, 7 },
	{ "KeyUsageTimeStamping", NID_time_stamp, 8 },
	{ "KeyUsageOCSPSigning", NID_OCSP_sign, 9 },
	{ "KeyUsageMicrosoftServerGatedCrypto", NID_ms_sgc, 10 },
	{ "KeyUsageNetscapeServerGatedCrypto", NID_ns_sgc, 11 },
	{ "KeyUsageMicrosoftCommercialCodeSigning", NID_ms_code_com, 12 },
	{ "KeyUsageMicrosoftKernelCodeSigning", NID_undef, 13 },
};

static void put_usages(struct rb_object *o, X509 *cert)
{
	EXTENDED_KEY_USAGE *list = X509_get_ext_d2i(cert, NID_ext_key_usage, NULL, NULL);
	ASN1_BIT_STRING *bits = X509_get_ext_d2i(cert, NID_key_usage, NULL, NULL);
	struct rf_rv_grow known = { 0 }, unknown = { 0 };
	int64_t usage = 0;

	for (int i = 0; list != NULL && i < sk_ASN1_OBJECT_num(list) && !o->full; i++) {
		ASN1_OBJECT *oid = sk_ASN1_OBJECT_value(list, i);
		int nid = OBJ_obj2nid(oid);
		size_t j = 0;

		while (j < RF_COUNT(usages) && (nid == NID_undef || usages[j].nid != nid))
			j++;
		if (j < RF_COUNT(usages))
			push(o, &known, rf_rv_int(usages[j].go));
		else
			push(o, &unknown, oid_value(o, oid));
	}
	for (int i = 0; bits != NULL && i < 9; i++)
		usage |= (int64_t)ASN1_BIT_STRING_get_bit(bits, i) << i;
	rb_put(o, "KeyUsage", rf_rv_int(usage));
	put_list(o, "ExtKeyUsage", &known);
	put_list(o, "UnknownExtKeyUsage", &unknown);
	EXTENDED_KEY_USAGE_free(list);
	ASN1_BIT_STRING_free(bits);
}

static void put_constraints(struct rb_object *o, X509 *cert)
{
	BASIC_CONSTRAINTS *b = X509_get_ext_d2i(cert, NID_basic_constraints, NULL, NULL);
	long path = b != NULL && b->pathlen != NULL ? ASN1_INTEGER_get(b->pathlen) : -1;

	rb_put(o, "BasicConstraintsValid", rf_rv_bool(b != NULL));
	rb_put(o, "IsCA", rf_rv_bool(b != NULL && b->ca));
	rb_put(o, "MaxPathLen", rf_rv_int(b == NULL ? 0 : path));
	rb_put(o, "MaxPathLenZero", rf_rv_bool(path == 0));
	BASIC_CONSTRAINTS_free(b);
}

static void put_info_access(struct rb_object *o, X509 *cert)
{
	AUTHORITY_INFO_ACCESS *list = X509_get_ext_d2i(cert, NID_info_access, NULL, NULL);
	struct rf_rv_grow ocsp = { 0 }, issuer = { 0 };

	for (int i = 0; list != NULL && i < sk_ACCESS_DESCRIPTION_num(list) && !o->full; i++) {
		ACCESS_DESCRIPTION *d = sk_ACCESS_DESCRIPTION_value(list, i);
		int nid = OBJ_obj2nid(d->method);

		if (d->location->type != GEN_URI || (nid != NID_ad_OCSP && nid != NID_ad_ca_issuers))
			continue;
		push_str(o, nid == NID_ad_OCSP ? &ocsp : &issuer, asn1_text(d->location->d.ia5));
	}
	put_list(o, "OCSPServer", &ocsp);
	put_list(o, "IssuingCertificateURL", &issuer);
	AUTHORITY_INFO_ACCESS_free(list);
}

static void put_crl_points(struct rb_object *o, X509 *cert)
{
	CRL_DIST_POINTS *list = X509_get_ext_d2i(cert, NID_crl_distribution_points, NULL, NULL);
	struct rf_rv_grow out = { 0 };

	for (int i = 0; list != NULL && i < sk_DIST_POINT_num(list) && !o->full; i++) {
		DIST_POINT *p = sk_DIST_POINT_value(list, i);

		if (p->distpoint == NULL || p->distpoint->type != 0)
			continue;
		for (int j = 0; j < sk_GENERAL_NAME_num(p->distpoint->name.fullname); j++) {
			GENERAL_NAME *n = sk_GENERAL_NAME_value(p->distpoint->name.fullname, j);

			if (n->type == GEN_URI)
				push_str(o, &out, asn1_text(n->d.ia5));
		}
	}
	put_list(o, "CRLDistributionPoints", &out);
	CRL_DIST_POINTS_free(list);
}

static void put_policies(struct rb_object *o, X509 *cert)
{
	CERTIFICATEPOLICIES *list = X509_get_ext_d2i(cert, NID_certificate_policies, NULL, NULL);
	struct rf_rv_grow ids = { 0 }, texts = { 0 };

	for (int i = 0; list != NULL && i < sk_POLICYINFO_num(list) && !o->full; i++) {
		ASN1_OBJECT *oid = sk_POLICYINFO_value(list, i)->policyid;
		char text[200];

		push(o, &ids, oid_value(o, oid));
		OBJ_obj2txt(text, sizeof(text), oid, 1);
		push_str(o, &texts, rf_str(text));
	}
	put_list(o, "PolicyIdentifiers", &ids);
	put_list(o, "Policies", &texts);
	CERTIFICATEPOLICIES_free(list);
}

/* Fields of Go's structure that are not filled here: name constraints and policy mappings. */
static void put_rest(struct rb_object *o)
{
	static const char *const empty[] = {
		"UnhandledCriticalExtensions", "PermittedDNSDomains",	 "ExcludedDNSDomains",
		"PermittedIPRanges",	       "ExcludedIPRanges",	 "PermittedEmailAddresses",
		"ExcludedEmailAddresses",      "PermittedURIDomains",	 "ExcludedURIDomains",
		"PolicyMappings",
	};

	for (size_t i = 0; i < RF_COUNT(empty); i++)
		rb_put(o, empty[i], RF_RV_NIL);
	rb_put(o, "PermittedDNSDomainsCritical", rf_rv_bool(false));
	rb_put(o, "InhibitAnyPolicy", rf_rv_int(0));
	rb_put(o, "InhibitAnyPolicyZero", rf_rv_bool(false));
	rb_put(o, "InhibitPolicyMapping", rf_rv_int(0));
	rb_put(o, "InhibitPolicyMappingZero", rf_rv_bool(false));
	rb_put(o, "RequireExplicitPolicy", rf_rv_int(0));
	rb_put(o, "RequireExplicitPolicyZero", rf_rv_bool(false));
}

static enum rf_rb_result cert_value(struct rf_rb_env *e, X509 *cert, bool uri_strings, struct rf_rv *ret)
{
	struct rb_object o = { .e = e };
	const ASN1_BIT_STRING *sig;
	const X509_ALGOR *alg;
	EVP_PKEY *key = X509_get0_pubkey(cert);

	if (!rf_rb_spend(e, 500))
		return RF_RB_FULL;
	X509_get0_signature(&sig, &alg, cert);
	PUT_DER(&o, "Raw", i2d_X509, cert);
	PUT_DER(&o, "RawTBSCertificate", i2d_re_X509_tbs, cert);
	PUT_DER(&o, "RawSubjectPublicKeyInfo", i2d_X509_PUBKEY, X509_get_X509_PUBKEY(cert));
	PUT_DER(&o, "RawSubject", i2d_X509_NAME, X509_get_subject_name(cert));
	PUT_DER(&o, "RawIssuer", i2d_X509_NAME, X509_get_issuer_name(cert));
	put_octets(&o, "Signature", sig);
	rb_put(&o, "SignatureAlgorithm", rf_rv_int(signature_algorithm(alg)));
	rb_put(&o, "PublicKeyAlgorithm", rf_rv_int(key_algorithm(key)));
	put_public_key(&o, key);
	rb_put(&o, "Version", rf_rv_int(X509_get_version(cert) + 1));
	put_integer(&o, "SerialNumber", X509_get0_serialNumber(cert));
	put_name(&o, "Issuer", X509_get_issuer_name(cert));
	put_name(&o, "Subject", X509_get_subject_name(cert));
	put_time(&o, "NotBefore", X509_get0_notBefore(cert));
	put_time(&o, "NotAfter", X509_get0_notAfter(cert));
	put_extensions(&o, X509_get0_extensions(cert));
	put_usages(&o, cert);
	put_constraints(&o, cert);
	put_octets(&o, "SubjectKeyId", X509_get0_subject_key_id(cert));
	put_octets(&o, "AuthorityKeyId", X509_get0_authority_key_id(cert));
	put_info_access(&o, cert);
	put_crl_points(&o, cert);
	put_policies(&o, cert);
	put_alt_names(&o, X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL), uri_strings);
	put_rest(&o);
	ERR_clear_error();
	return rb_object_value(&o, ret);
}

/* --- reading --- */

static enum rf_rb_result read_ders(struct rf_str der, struct rf_rb_certs *certs, struct rf_err *err)
{
	const unsigned char *p = (const unsigned char *)der.p, *end = p + der.n;

	while (p < end) {
		X509 *cert = d2i_X509(NULL, &p, end - p);

		if (cert == NULL)
			return rb_error(err, "x509: malformed certificate");
		if (certs->n == CERTS_MAX) {
			X509_free(cert);
			return rb_error(err, "more than %d certificates", CERTS_MAX);
		}
		certs->at[certs->n++] = cert;
	}
	return RF_RB_OK;
}

static enum rf_rb_result read_pems(struct rf_rb_env *e, struct rf_str text, struct rf_rb_certs *certs,
				   struct rf_err *err)
{
	struct rb_pem pem;
	bool found;

	for (;;) {
		RB_TRY(rb_pem_next(e, &text, &pem, &found));
		if (!found)
			return RF_RB_OK;
		if (!rf_str_is(pem.type, "CERTIFICATE"))
			return rb_error(err, "PEM block type is '%.*s', expected CERTIFICATE",
					(int)RF_MIN(pem.type.n, 100), pem.type.p);
		RB_TRY(read_ders(pem.der, certs, err));
	}
}

/* PEM, base64 of PEM, or base64 of DER. */
static enum rf_rb_result read_certs(struct rf_rb_env *e, struct rf_str text, struct rf_rb_certs *certs,
				    struct rf_err *err)
{
	struct rf_str bytes;

	if (rf_str_starts(text, RF_LIT("-----BEGIN")))
		return read_pems(e, text, certs, err);
	RB_TRY(rb_base64_decode(e, text, false, true, &bytes, err));
	if (rf_str_starts(bytes, RF_LIT("-----BEGIN")))
		return read_pems(e, bytes, certs, err);
	return read_ders(bytes, certs, err);
}

static enum rf_rb_result certs_value(struct rf_rb_env *e, X509 *const *certs, size_t n, bool uri_strings,
				     struct rf_rv *ret)
{
	struct rf_rv *items = rb_alloc(e, n, sizeof(*items));

	if (items == NULL)
		return RF_RB_FULL;
	for (size_t i = 0; i < n; i++)
		RB_TRY(cert_value(e, certs[i], uri_strings, &items[i]));
	*ret = rf_rv_array(items, (uint32_t)n);
	return RF_RB_OK;
}

enum rf_rb_result rb_x509_parse_certificates(struct rf_rb_env *e, const struct rf_rv *arg,
					     struct rf_rv *ret, struct rf_err *err)
{
	rf_auto(rb_certs) certs = { .n = 0 };

	RB_TRY(read_certs(e, rf_rv_text(arg[0]), &certs, err));
	return certs_value(e, certs.at, certs.n, true, ret);
}

/* --- verifying --- */

struct verify {
	struct rf_str dns;
	int64_t now; /* seconds */
	uint32_t usages; /* bits by index in the table; 0: server */
};

/* Does the certificate allow any of the uses? One that names none allows all. */
static uint32_t allowed_usages(X509 *cert, uint32_t asked)
{
	EXTENDED_KEY_USAGE *list = X509_get_ext_d2i(cert, NID_ext_key_usage, NULL, NULL);
	uint32_t left = list == NULL ? asked : 0;

	for (int i = 0; list != NULL && i < sk_ASN1_OBJECT_num(list); i++) {
		int nid = OBJ_obj2nid(sk_ASN1_OBJECT_value(list, i));

		if (nid == NID_anyExtendedKeyUsage)
			left = asked;
		for (size_t j = 0; j < RF_COUNT(usages); j++)
			if (nid != NID_undef && usages[j].nid == nid)
				left |= asked & 1u << j;
	}
	EXTENDED_KEY_USAGE_free(list);
	return left;
}

static bool usages_hold(STACK_OF(X509) *chain, uint32_t asked)
{
	if (asked == 0)
		asked = 1u << 1;
	if (asked & 1)
		return true;
	for (int i = 0; i < sk_X509_num(chain); i++)
		asked = allowed_usages(sk_X509_value(chain, i), asked);
	return asked != 0;
}

/* The first certificate is trusted, the last is asked about, those between may be used. */
static bool chain_holds(struct rf_rb_certs *certs, const struct verify *v, STACK_OF(X509) **ret)
{
	rb_ossl(X509_STORE) store = X509_STORE_new();
	rb_ossl(X509_STORE_CTX) ctx = X509_STORE_CTX_new();
	STACK_OF(X509) *between = sk_X509_new_null();
	X509 *leaf = certs->at[certs->n - 1];
	bool ok = store != NULL && ctx != NULL && between != NULL &&
		  X509_STORE_add_cert(store, certs->at[0]) == 1;

	for (size_t i = 1; ok && i + 1 < certs->n; i++)
		ok = sk_X509_push(between, certs->at[i]) > 0;
	ok = ok && X509_STORE_CTX_init(ctx, store, leaf, between) == 1;
	if (ok) {
		X509_STORE_CTX_set_time(ctx, 0, v->now);
		X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_PARTIAL_CHAIN);
		X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(ctx), 1);
		ok = X509_verify_cert(ctx) == 1;
	}
	if (ok)
		*ret = X509_STORE_CTX_get1_chain(ctx);
	ok = ok && *ret != NULL && usages_hold(*ret, v->usages) &&
	     (v->dns.n == 0 || X509_check_host(leaf, v->dns.p, v->dns.n, 0, NULL) == 1);
	sk_X509_free(between);
	ERR_clear_error();
	return ok;
}

static enum rf_rb_result verdict(struct rf_rb_env *e, bool ok, struct rf_rv chain, struct rf_rv *ret)
{
	struct rf_rv *items = rb_alloc(e, 2, sizeof(*items));

	if (items == NULL)
		return RF_RB_FULL;
	items[0] = rf_rv_bool(ok);
	items[1] = chain;
	*ret = rf_rv_array(items, 2);
	return RF_RB_OK;
}

static enum rf_rb_result verify_certs(struct rf_rb_env *e, struct rf_rb_certs *certs,
				      const struct verify *v, bool uri_strings, struct rf_rv *ret)
{
	struct rf_rv list = rf_rv_array(NULL, 0);
	STACK_OF(X509) *chain = NULL;
	X509 *at[CERTS_MAX];
	enum rf_rb_result r = RF_RB_OK;
	int n = 0;
	bool ok;

	if (!rf_rb_spend(e, RB_KEY_STEPS * (int64_t)certs->n))
		return RF_RB_FULL;
	ok = certs->n >= 2 && chain_holds(certs, v, &chain);
	for (; ok && n < sk_X509_num(chain) && n < CERTS_MAX; n++)
		at[n] = sk_X509_value(chain, n);
	if (ok)
		r = certs_value(e, at, (size_t)n, uri_strings, &list);
	sk_X509_pop_free(chain, X509_free);
	return r != RF_RB_OK ? r : verdict(e, ok, list, ret);
}

enum rf_rb_result rb_x509_parse_and_verify(struct rf_rb_env *e, const struct rf_rv *arg,
					   struct rf_rv *ret, struct rf_err *err)
{
	rf_auto(rb_certs) certs = { .n = 0 };
	struct verify v = { .now = e->now_ns / 1000000000 };
	enum rf_rb_result r = read_certs(e, rf_rv_text(arg[0]), &certs, err);

	if (r != RF_RB_OK)
		return r == RF_RB_FULL ? r : verdict(e, false, rf_rv_array(NULL, 0), ret);
	return verify_certs(e, &certs, &v, true, ret);
}

static struct rf_str trim_quotes(struct rf_str s)
{
	while (s.n > 0 && s.p[0] == '"')
		s = rf_str_skip(s, 1);
	while (s.n > 0 && s.p[s.n - 1] == '"')
		s.n--;
	return s;
}

static enum rf_rb_result usage_option(struct rf_rv v, struct verify *o, struct rf_err *err)
{
	if (v.type != RF_RV_ARRAY && v.type != RF_RV_SET)
		return rb_error(err, "'KeyUsages' should be an Array or Set");
	for (uint32_t i = 0; i < v.n; i++) {
		struct rf_str name = trim_quotes(rf_rv_text(v.items[i]));
		size_t j = 0;

		if (v.items[i].type != RF_RV_STRING)
			continue;
		while (j < RF_COUNT(usages) && !rf_str_is(name, usages[j].name))
			j++;
		if (j == RF_COUNT(usages))
			return rb_error(err, "invalid entries for 'KeyUsages' found: [%.*s]",
					(int)RF_MIN(name.n, 100), name.p);
		o->usages |= 1u << j;
	}
	return RF_RB_OK;
}

static enum rf_rb_result verify_option(struct rf_str key, struct rf_rv v, struct verify *o,
				       struct rf_err *err)
{
	int64_t i;

	if (rf_str_is(key, "DNSName")) {
		if (v.type != RF_RV_STRING)
			return rb_error(err, "'DNSName' should be a string");
		o->dns = trim_quotes(rf_rv_text(v));
		return RF_RB_OK;
	}
	if (rf_str_is(key, "KeyUsages"))
		return usage_option(v, o, err);
	if (!rf_str_is(key, "CurrentTime") && !rf_str_is(key, "MaxConstraintComparisons"))
		return rb_error(err, "invalid key option");
	if (v.type != RF_RV_NUMBER)
		return rb_error(err, "'%.*s' should be a number", RF_STR(key));
	if (!rf_rn_int64(v, &i))
		return rb_error(err, "'%.*s' should be a valid int64 number", RF_STR(key));
	if (rf_str_is(key, "CurrentTime"))
		o->now = i / 1000000000;
	return RF_RB_OK;
}

enum rf_rb_result rb_x509_parse_and_verify_with_options(struct rf_rb_env *e, const struct rf_rv *arg,
							struct rf_rv *ret, struct rf_err *err)
{
	rf_auto(rb_certs) certs = { .n = 0 };
	struct verify v = { .now = e->now_ns / 1000000000 };
	enum rf_rb_result r = read_certs(e, rf_rv_text(arg[0]), &certs, err);

	if (r != RF_RB_OK)
		return r == RF_RB_FULL ? r : verdict(e, false, rf_rv_array(NULL, 0), ret);
	for (uint32_t i = 0; i < arg[1].n; i++)
		if (arg[1].pairs[i].key.type == RF_RV_STRING)
			RB_TRY(verify_option(rf_rv_text(arg[1].pairs[i].key), arg[1].pairs[i].value, &v,
					     err));
	return verify_certs(e, &certs, &v, false, ret);
}

/* --- requests --- */

static enum rf_rb_result request_value(struct rf_rb_env *e, X509_REQ *req, struct rf_rv *ret)
{
	STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(req);
	struct rb_object o = { .e = e };
	const ASN1_BIT_STRING *sig;
	const X509_ALGOR *alg;
	EVP_PKEY *key = X509_REQ_get0_pubkey(req);

	X509_REQ_get0_signature(req, &sig, &alg);
	PUT_DER(&o, "Raw", i2d_X509_REQ, req);
	PUT_DER(&o, "RawTBSCertificateRequest", i2d_re_X509_REQ_tbs, req);
	PUT_DER(&o, "RawSubjectPublicKeyInfo", i2d_X509_PUBKEY, X509_REQ_get_X509_PUBKEY(req));
	PUT_DER(&o, "RawSubject", i2d_X509_NAME, X509_REQ_get_subject_name(req));
	rb_put(&o, "Version", rf_rv_int(X509_REQ_get_version(req)));
	put_octets(&o, "Signature", sig);
	rb_put(&o, "SignatureAlgorithm", rf_rv_int(signature_algorithm(alg)));
	rb_put(&o, "PublicKeyAlgorithm", rf_rv_int(key_algorithm(key)));
	put_public_key(&o, key);
	put_name(&o, "Subject", X509_REQ_get_subject_name(req));
	rb_put(&o, "Attributes", rf_rv_array(NULL, 0));
	put_extensions(&o, extensions);
	put_alt_names(&o, X509V3_get_d2i(extensions, NID_subject_alt_name, NULL, NULL), false);
	sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
	ERR_clear_error();
	return rb_object_value(&o, ret);
}

enum rf_rb_result rb_x509_parse_certificate_request(struct rf_rb_env *e, const struct rf_rv *arg,
						    struct rf_rv *ret, struct rf_err *err)
{
	struct rf_str bytes = rf_rv_text(arg[0]), rest;
	rb_ossl(X509_REQ) req = NULL;
	const unsigned char *p;
	struct rb_pem pem;
	bool found;

	if (!rf_rb_spend(e, 500))
		return RF_RB_FULL;
	if (!rf_str_starts(bytes, RF_LIT("-----BEGIN CERTIFICATE REQUEST-----")))
		RB_TRY(rb_base64_decode(e, bytes, false, true, &bytes, err));
	rest = bytes;
	RB_TRY(rb_pem_next(e, &rest, &pem, &found));
	if (found && !rf_str_is(pem.type, "CERTIFICATE REQUEST"))
		return rb_error(err, "invalid PEM-encoded certificate signing request");
	if (found)
		bytes = pem.der;
	p = (const unsigned char *)bytes.p;
	req = d2i_X509_REQ(NULL, &p, (long)bytes.n);
	ERR_clear_error();
	if (req == NULL)
		return rb_error(err, "asn1: structure error: not a certificate request");
	return request_value(e, req, ret);
}

/* --- private keys --- */

/* Go's rsa.PrivateKey, ecdsa.PrivateKey, or the bytes of an Ed25519 key. */
static enum rf_rb_result private_value(struct rf_rb_env *e, EVP_PKEY *key, struct rf_rv *ret)
{
	struct rb_object o = { .e = e }, more = { .e = e }, bytes = { .e = e };
	struct rf_rv_grow primes = { 0 };
	unsigned char raw[64];
	size_t n = 32, m = 32;
	struct rf_rv v;

	if (key_algorithm(key) == 4) {
		if (EVP_PKEY_get_raw_private_key(key, raw, &n) != 1 ||
		    EVP_PKEY_get_raw_public_key(key, raw + 32, &m) != 1)
			return RF_RB_FULL;
		put_base64(&bytes, "k", raw, n + m);
		RB_TRY(rb_object_value(&bytes, &v));
		*ret = v.pairs[0].value;
		return RF_RB_OK;
	}
	put_public_numbers(&o, key);
	put_key_number(&o, "D", key,
		       key_algorithm(key) == 1 ? OSSL_PKEY_PARAM_RSA_D : OSSL_PKEY_PARAM_PRIV_KEY);
	if (key_algorithm(key) != 1)
		return rb_object_value(&o, ret);
	put_key_number(&bytes, "p", key, OSSL_PKEY_PARAM_RSA_FACTOR1);
	put_key_number(&bytes, "q", key, OSSL_PKEY_PARAM_RSA_FACTOR2);
	RB_TRY(rb_object_value(&bytes, &v));
	for (uint32_t i = 0; i < v.n; i++)
		push(&o, &primes, v.pairs[i].value);
	put_list(&o, "Primes", &primes);
	put_key_number(&more, "Dp", key, OSSL_PKEY_PARAM_RSA_EXPONENT1);
	put_key_number(&more, "Dq", key, OSSL_PKEY_PARAM_RSA_EXPONENT2);
	put_key_number(&more, "Qinv", key, OSSL_PKEY_PARAM_RSA_COEFFICIENT1);
	rb_put(&more, "CRTValues", rf_rv_array(NULL, 0));
	rb_put(&o, "Precomputed", object_of(&o, &more));
	return rb_object_value(&o, ret);
}

static EVP_PKEY *private_of(const struct rb_pem *pem)
{
	const unsigned char *p = (const unsigned char *)pem->der.p;
	long n = (long)pem->der.n;

	if (rf_str_is(pem->type, "RSA PRIVATE KEY"))
		return d2i_PrivateKey(EVP_PKEY_RSA, NULL, &p, n);
	if (rf_str_is(pem->type, "EC PRIVATE KEY"))
		return d2i_PrivateKey(EVP_PKEY_EC, NULL, &p, n);
	rb_ossl(PKCS8_PRIV_KEY_INFO) info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &p, n);

	return info == NULL ? NULL : EVP_PKCS82PKEY(info);
}

static bool is_private_type(struct rf_str type)
{
	return rf_str_is(type, "RSA PRIVATE KEY") || rf_str_is(type, "EC PRIVATE KEY") ||
	       rf_str_is(type, "PRIVATE KEY");
}

static enum rf_rb_result read_private(struct rf_rb_env *e, struct rf_str text, struct rf_rb_keys *keys,
				      struct rf_err *err)
{
	enum rf_rb_result r;
	struct rf_str bytes;
	struct rb_pem pem;
	bool found;

	r = rb_base64_decode(e, text, false, true, &bytes, NULL);
	if (r == RF_RB_FULL)
		return r;
	if (r == RF_RB_OK)
		text = bytes;
	for (;;) {
		RB_TRY(rb_pem_next(e, &text, &pem, &found));
		if (!found)
			return RF_RB_OK;
		if (!is_private_type(pem.type))
			continue;
		if (keys->n == RB_KEYS_MAX)
			return rb_error(err, "more than %d keys", RB_KEYS_MAX);
		if (!rf_rb_spend(e, RB_KEY_STEPS))
			return RF_RB_FULL;
		keys->at[keys->n].pkey = private_of(&pem);
		if (keys->at[keys->n].pkey == NULL || key_algorithm(keys->at[keys->n].pkey) == 0) {
			EVP_PKEY_free(keys->at[keys->n].pkey);
			return rb_error(err, "x509: failed to parse private key");
		}
		keys->n++;
	}
}

enum rf_rb_result rb_parse_private_keys(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					struct rf_err *err)
{
	rf_auto(rb_keys) keys = { .n = 0 };
	struct rf_rv *items;

	if (arg[0].n == 0) {
		*ret = RF_RV_NIL;
		return RF_RB_OK;
	}
	RB_TRY(read_private(e, rf_rv_text(arg[0]), &keys, err));
	items = rb_alloc(e, keys.n, sizeof(*items));
	if (items == NULL)
		return RF_RB_FULL;
	for (size_t i = 0; i < keys.n; i++)
		RB_TRY(private_value(e, keys.at[i].pkey, &items[i]));
	*ret = rf_rv_array(items, (uint32_t)keys.n);
	return RF_RB_OK;
}

enum rf_rb_result rb_parse_rsa_private_key(struct rf_rb_env *e, const struct rf_rv *arg,
					   struct rf_rv *ret, struct rf_err *err)
{
	rf_auto(rb_keys) keys = { .n = 0 };
	struct rf_str text = rf_rv_text(arg[0]);

	if (text.n == 0)
		return rb_error(err, "input PEM data was empty");
	if (!rf_str_starts(text, RF_LIT("-----BEGIN")))
		RB_TRY(rb_base64_decode(e, text, false, true, &text, err));
	RB_TRY(read_private(e, text, &keys, err));
	if (keys.n == 0) {
		*ret = RF_RV_NIL;
		return RF_RB_OK;
	}
	return rb_jwk_of(e, keys.at[0].pkey, ret, err);
}

/* --- key pairs --- */

/* The private key of a text: PEM, base64 of PEM, or base64 of DER. */
static enum rf_rb_result pair_key(struct rf_rb_env *e, struct rf_str text, EVP_PKEY **ret,
				  struct rf_err *err)
{
	struct rb_pem pem = { .type = RF_LIT("PRIVATE KEY") };
	bool found = true;

	if (!rf_str_starts(text, RF_LIT("-----BEGIN ")))
		RB_TRY(rb_base64_decode(e, text, false, true, &text, err));
	pem.der = text;
	if (rf_str_starts(text, RF_LIT("-----BEGIN")))
		do
			RB_TRY(rb_pem_next(e, &text, &pem, &found));
		while (found && !is_private_type(pem.type));
	if (found)
		*ret = private_of(&pem);
	return *ret == NULL ? rb_error(err, "tls: failed to find or parse a private key") : RF_RB_OK;
}

static enum rf_rb_result pair_value(struct rf_rb_env *e, struct rf_rb_certs *certs, EVP_PKEY *key,
				    struct rf_rv *ret)
{
	static const char *const empty[] = { "SupportedSignatureAlgorithms", "OCSPStaple",
					     "SignedCertificateTimestamps" };
	struct rb_object o = { .e = e };
	struct rf_rv_grow list = { 0 };
	struct rf_rv v;

	for (size_t i = 0; i < certs->n; i++) {
		struct rb_object one = { .e = e };

		PUT_DER(&one, "der", i2d_X509, certs->at[i]);
		RB_TRY(rb_object_value(&one, &v));
		push(&o, &list, v.pairs[0].value);
	}
	put_list(&o, "Certificate", &list);
	RB_TRY(private_value(e, key, &v));
	rb_put(&o, "PrivateKey", v);
	RB_TRY(cert_value(e, certs->at[0], false, &v));
	rb_put(&o, "Leaf", v);
	for (size_t i = 0; i < RF_COUNT(empty); i++)
		rb_put(&o, empty[i], RF_RV_NIL);
	return rb_object_value(&o, ret);
}

enum rf_rb_result rb_x509_parse_keypair(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					struct rf_err *err)
{
	rf_auto(rb_certs) certs = { .n = 0 };
	rb_ossl(EVP_PKEY) key = NULL;

	if (!rf_rb_spend(e, RB_KEY_STEPS))
		return RF_RB_FULL;
	RB_TRY(read_certs(e, rf_rv_text(arg[0]), &certs, err));
	if (certs.n == 0)
		return rb_error(err, "tls: failed to find any PEM data in certificate input");
	RB_TRY(pair_key(e, rf_rv_text(arg[1]), &key, err));
	if (key_algorithm(key) == 0 || EVP_PKEY_eq(key, X509_get0_pubkey(certs.at[0])) != 1) {
		ERR_clear_error();
		return rb_error(err, "tls: private key does not match public key");
	}
	return pair_value(e, &certs, key, ret);
}
