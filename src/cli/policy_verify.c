/* `policy verify`: Gatekeeper's suites, as `gator verify` runs them. */
#include "cli/policy.h"
#include "policy/gatekeeper.h"

int rf_policy_verify(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_gk_tally t = { 0 };

	(void)a;
	for (int i = 0; i < argc; i++) {
		int r = rf_gk_verify(argv[i], &out, &t, err);

		fwrite(out.p, 1, out.n, stdout); /* what was judged before an error, too */
		rf_buf_clear(&out);
		if (r < 0)
			return r;
	}
	if (t.passed + t.failed + t.skipped == 0)
		return rf_fail(err, RF_NOT_FOUND, "verify %s: there is no Suite (suite.yaml) in it", argv[0]);
	return rf_policy_close(&(struct rf_rego_tally){ .passed = t.passed, .failed = t.failed, .skipped = t.skipped });
}
