/* Traces, machines and changes for ringfence simulate: no text may crash their readers, and what is accepted keeps
 * to its limits. */
#include <stdint.h>

#include "simulate/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_jobs(struct rf_str text)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;

	if (rf_simulate_read_jobs(&s, text, NULL) < 0)
		return;
	rf_assert(s.jobs.n > 0 && s.tenants.n > 0 && rf_simulate_is_jobs(text));
	for (size_t i = 0; i < s.jobs.n; i++) {
		const struct rf_simulate_job *j = &s.jobs.at[i];

		rf_assert(j->tenant < s.tenants.n && j->cards > 0 && j->run_ms > 0 && j->id == i);
		rf_assert(i == 0 || s.jobs.at[i - 1].submit_ms <= j->submit_ms);
	}
	if (rf_simulate_add_nodes(&s, RF_LIT("3x8"), NULL) == 0)
		rf_simulate_scale(&s, 130, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_str text = rf_str_n((const char *)data, size);
	struct rf_simulate_changes changes;

	rf_simulate_read_nodes(&s, text, NULL);
	rf_simulate_read_pods(&s, text, NULL);
	if (rf_simulate_add_nodes(&s, text, NULL) == 0)
		rf_assert(s.nodes.n > 0 && s.nodes.at[s.nodes.n - 1].cards <= RF_FLEET_CARDS_MAX);
	read_jobs(text);
	if (rf_simulate_changes_parse(text, &changes, NULL) == 0)
		rf_assert(changes.n > 0 && changes.n <= RF_SIMULATE_CHANGES_MAX);
	return 0;
}
