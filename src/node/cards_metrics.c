/* The series about cards, the same from every agent. */
#include "node/cards.h"

struct page {
	struct rf_metrics *m;
	const struct rf_label *labels;
	size_t n;
};

static void value(const struct page *p, const char *name, const char *help,
		  enum rf_metric_type type, int64_t v, int decimals)
{
	if (v >= 0)
		rf_metrics_scaled(p->m, name, type, help, p->labels, p->n, v, decimals);
}

static void card(struct rf_metrics *m, const struct rf_cards *c, size_t i, struct rf_str node)
{
	const struct rf_gpu_card *card = rf_gpu_card(c->gpu, i);
	const struct rf_card_health *h = &c->health[i];
	const struct rf_gpu_sample *s = &h->sample;
	struct rf_label l[] = { { "card", rf_arena_printf(m->arena, "gpu-%d", card->index) },
				{ "uuid", rf_str(card->uuid) },
				{ "model", rf_str(card->name) },
				{ "node", node } };
	struct page p = { m, l, RF_COUNT(l) };

	value(&p, "ringfence_gpu_memory_total_bytes", "Memory of the card.", RF_METRIC_GAUGE,
	      card->memory_bytes, 0);
	value(&p, "ringfence_gpu_memory_used_bytes", "Memory in use on the card.", RF_METRIC_GAUGE,
	      s->memory_used, 0);
	value(&p, "ringfence_gpu_utilisation_ratio", "Share of time with a kernel running.",
	      RF_METRIC_GAUGE, s->utilisation, 2);
	value(&p, "ringfence_gpu_temperature_celsius", "Temperature of the card.", RF_METRIC_GAUGE,
	      s->temperature, 0);
	value(&p, "ringfence_gpu_power_watts", "Power drawn by the card.", RF_METRIC_GAUGE,
	      s->power_mw, 3);
	value(&p, "ringfence_gpu_energy_joules_total", "Energy used since the driver was loaded.",
	      RF_METRIC_COUNTER, s->energy_mj, 3);
	value(&p, "ringfence_gpu_ecc_corrected_total",
	      "Corrected memory errors since the driver was loaded.", RF_METRIC_COUNTER,
	      s->ecc_corrected, 0);
	value(&p, "ringfence_gpu_ecc_uncorrected_total",
	      "Uncorrected memory errors since the driver was loaded.", RF_METRIC_COUNTER,
	      s->ecc_uncorrected, 0);
	value(&p, "ringfence_gpu_xid_total", "XIDs seen since the agent started.",
	      RF_METRIC_COUNTER, h->xids, 0);
	value(&p, "ringfence_gpu_last_xid", "The last XID seen; 0 if none.", RF_METRIC_GAUGE,
	      h->last_xid, 0);
	value(&p, "ringfence_gpu_healthy", "1 if the card is in service.", RF_METRIC_GAUGE,
	      rf_card_healthy(h), 0);
}

void rf_cards_metrics(struct rf_metrics *m, const struct rf_cards *c, struct rf_str node)
{
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		card(m, c, i, node);
}

void rf_card_use_metrics(struct rf_metrics *m, const struct rf_card_use *u)
{
	struct rf_label l[] = { { "tenant", u->tenant },
				{ "namespace", u->ns },
				{ "pod", u->pod },
				{ "container", u->container },
				{ "card", rf_arena_printf(m->arena, "gpu-%d", u->index) },
				{ "node", u->node } };
	size_t n = RF_COUNT(l);

	rf_metrics_int(m, "ringfence_container_gpu_memory_used_bytes", RF_METRIC_GAUGE,
		       "Card memory the container's processes have booked.", l, n, u->used);
	rf_metrics_int(m, "ringfence_container_gpu_memory_cap_bytes", RF_METRIC_GAUGE,
		       "Card memory the container may use; 0 is the whole card.", l, n, u->cap);
	rf_metrics_int(m, "ringfence_container_gpu_refusals_total", RF_METRIC_COUNTER,
		       "Allocations refused because of the cap.", l, n, u->refusals);
	rf_metrics_int(m, "ringfence_container_gpu_processes", RF_METRIC_GAUGE,
		       "Processes that hold memory on the card.", l, n, u->processes);
	rf_metrics_scaled(m, "ringfence_container_gpu_seconds_total", RF_METRIC_COUNTER,
			  "Time on the card that the container was charged.", l, n, u->gpu_us, 6);
	rf_metrics_scaled(m, "ringfence_container_gpu_held_seconds_total", RF_METRIC_COUNTER,
			  "Time for which the container's processes waited for their turn on the card.", l, n,
			  u->held_us, 6);
	rf_metrics_scaled(m, "ringfence_container_gpu_compute_allocated_ratio", RF_METRIC_GAUGE,
			  "Share of the card's time that was allocated; 0 is none reserved.", l, n,
			  u->compute_milli, 3);
}
