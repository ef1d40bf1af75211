/* The cards a library sees: those whose files are in the folder, as a driver in a container sees
 * the device nodes it was given. */
#include "sim/state.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_card_name(const char *name)
{
	size_t n = strlen("nvidia");

	if (strncmp(name, "nvidia", n) != 0 || name[n] == '\0' || strlen(name) > n + 3)
		return false;
	for (const char *p = name + n; *p != '\0'; p++)
		if (!isdigit((unsigned char)*p))
			return false;
	return true;
}

static int by_minor(const void *a, const void *b)
{
	const struct sim_card *x = *(struct sim_card *const *)a;
	const struct sim_card *y = *(struct sim_card *const *)b;

	return (x->s->minor > y->s->minor) - (x->s->minor < y->s->minor);
}

static void add_card(struct sim_machine *m, const char *dir, const char *name)
{
	char path[4096];
	struct sim_card *c = NULL;

	if (m->n == SIM_CARDS_MAX ||
	    snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return;
	/* A file that is no card, or may not be opened, is a card that is not there. */
	if (sim_card_open(path, &c) == 0)
		m->cards[m->n++] = c;
}

/* Lines "<card> <GPU instance> <compute instance>". As the nodes in /dev/nvidia-caps: without one, an instance
 * cannot be used, and nobody who is so bounded makes or destroys one. No file: all may be used. */
static void read_caps(struct sim_machine *m, const char *dir)
{
	char path[4096], line[64];
	unsigned minor, gi, ci;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/caps", dir) >= (int)sizeof(path))
		return;
	f = fopen(path, "re");
	if (f == NULL)
		return;
	for (size_t i = 0; i < m->n; i++) {
		m->cards[i]->bounded = true;
		memset(m->cards[i]->may_use, 0, sizeof(m->cards[i]->may_use));
	}
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%u %u %u", &minor, &gi, &ci) != 3 || gi > SIM_GIS || ci >= 8)
			continue;
		for (size_t i = 0; i < m->n; i++)
			if (m->cards[i]->s->minor == minor)
				m->cards[i]->may_use[gi] |= (uint8_t)(1u << ci);
	}
	fclose(f);
}

bool sim_machine_open(struct sim_machine *m)
{
	const char *dir = getenv("RINGFENCE_SIM");
	struct dirent *e;
	DIR *d;

	*m = (struct sim_machine){ 0 };
	if (dir == NULL || dir[0] == '\0')
		return false;
	d = opendir(dir);
	if (d == NULL)
		return false;
	while ((e = readdir(d)) != NULL) {
		if (is_card_name(e->d_name))
			add_card(m, dir, e->d_name);
		else if (strcmp(e->d_name, "machine") == 0)
			m->has_facts = true;
	}
	closedir(d);
	qsort(m->cards, m->n, sizeof(m->cards[0]), by_minor);
	read_caps(m, dir);
	return true;
}
