/* /metrics: the cards, and who uses how much of them. */
#include "node/agent.h"
#include "observe/metrics.h"

struct page {
	struct rf_metrics m;
	struct rf_agent *g;
	struct rf_arena *a;
};

static void card_value(struct page *p, const struct rf_label *labels, const char *name,
		       const char *help, enum rf_metric_type type, int64_t value, int decimals)
{
	if (value >= 0)
		rf_metrics_scaled(&p->m, name, type, help, labels, 4, value, decimals);
}

static void card(struct page *p, size_t i)
{
	const struct rf_gpu_card *c = rf_gpu_card(p->g->gpu, i);
	const struct rf_card_health *h = &p->g->health[i];
	const struct rf_gpu_sample *s = &h->sample;
	struct rf_label l[] = { { "card", rf_arena_printf(p->a, "gpu-%d", c->index) },
				{ "uuid", rf_str(c->uuid) },
				{ "model", rf_str(c->name) },
				{ "node", p->g->name } };

	card_value(p, l, "ringfence_gpu_memory_total_bytes", "Memory of the card.", RF_METRIC_GAUGE,
		   c->memory_bytes, 0);
	card_value(p, l, "ringfence_gpu_memory_used_bytes", "Memory in use on the card.",
		   RF_METRIC_GAUGE, s->memory_used, 0);
	card_value(p, l, "ringfence_gpu_utilisation_ratio", "Share of time with a kernel running.",
		   RF_METRIC_GAUGE, s->utilisation, 2);
	card_value(p, l, "ringfence_gpu_temperature_celsius", "Temperature of the card.",
		   RF_METRIC_GAUGE, s->temperature, 0);
	card_value(p, l, "ringfence_gpu_power_watts", "Power drawn by the card.", RF_METRIC_GAUGE,
		   s->power_mw, 3);
	card_value(p, l, "ringfence_gpu_energy_joules_total",
		   "Energy used since the driver was loaded.", RF_METRIC_COUNTER, s->energy_mj, 3);
	card_value(p, l, "ringfence_gpu_ecc_corrected_total",
		   "Corrected memory errors since the driver was loaded.", RF_METRIC_COUNTER,
		   s->ecc_corrected, 0);
	card_value(p, l, "ringfence_gpu_ecc_uncorrected_total",
		   "Uncorrected memory errors since the driver was loaded.", RF_METRIC_COUNTER,
		   s->ecc_uncorrected, 0);
	card_value(p, l, "ringfence_gpu_xid_total", "XIDs seen since the agent started.",
		   RF_METRIC_COUNTER, h->xids, 0);
	card_value(p, l, "ringfence_gpu_last_xid", "The last XID seen; 0 if none.", RF_METRIC_GAUGE,
		   h->last_xid, 0);
	card_value(p, l, "ringfence_gpu_healthy", "1 if the card is in service.", RF_METRIC_GAUGE,
		   rf_card_healthy(h), 0);
}

static void container_card(struct page *p, const struct rf_container *c, size_t i)
{
	const struct rf_worker *w = c->worker;
	struct rf_fence_figures f;
	struct rf_label l[] = { { "tenant", rf_str(w->tenant) },
				{ "namespace", rf_str(w->ns) },
				{ "pod", rf_str(w->name) },
				{ "container", rf_str(c->name) },
				{ "card",
				  rf_arena_printf(p->a, "gpu-%d", c->grant.cards[i].index) },
				{ "node", p->g->name } };
	size_t n = RF_COUNT(l);

	if (!rf_container_figures(c, i, &f))
		return;
	rf_metrics_int(&p->m, "ringfence_container_gpu_memory_used_bytes", RF_METRIC_GAUGE,
		       "Card memory the container's processes have booked.", l, n, f.used);
	rf_metrics_int(&p->m, "ringfence_container_gpu_memory_cap_bytes", RF_METRIC_GAUGE,
		       "Card memory the container may use; 0 is the whole card.", l, n, f.cap);
	rf_metrics_int(&p->m, "ringfence_container_gpu_refusals_total", RF_METRIC_COUNTER,
		       "Allocations refused because of the cap.", l, n, f.refusals);
	rf_metrics_int(&p->m, "ringfence_container_gpu_processes", RF_METRIC_GAUGE,
		       "Processes that hold memory on the card.", l, n, f.processes);
	rf_metrics_scaled(&p->m, "ringfence_container_gpu_compute_allocated_ratio", RF_METRIC_GAUGE,
			  "Share of the card's time that was allocated; 0 is none reserved.", l, n,
			  c->grant.cards[i].compute_milli, 3);
}

static void pods(struct page *p)
{
	size_t by_state[RF_POD_STATES] = { 0 };

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;

		by_state[w->state]++;
		for (size_t i = 0; i < w->n_containers; i++)
			for (size_t j = 0; j < w->containers[i].grant.n; j++)
				container_card(p, &w->containers[i], j);
	}
	for (size_t i = 0; i < RF_POD_STATES; i++) {
		struct rf_label l[] = { { "node", p->g->name },
					{ "state", rf_str(rf_pod_state_name(i)) } };

		rf_metrics_int(&p->m, "ringfence_node_pods", RF_METRIC_GAUGE,
			       "Pods on this node by state.", l, 2, (int64_t)by_state[i]);
	}
}

void rf_agent_metrics(struct rf_agent *g, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct page p = { .g = g, .a = &a };

	rf_metrics_init(&p.m, &a);
	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++)
		card(&p, i);
	pods(&p);
	rf_metrics_process(&p.m);
	rf_metrics_write(&p.m, out);
}
