/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/memory_faults.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/macros.h"

enum { PAGE_BYTES = 2 << 20 }; /* the most that the driver moves for a fault */

struct page {
	struct list used; /* linked: it is on the device */
	struct job *job;
};

struct job {
	const struct memory_load *load;
	struct memory_tenant *out;
	struct page *pages; /* owned */
	uint32_t size, at;  /* the sweep's next page */
	uint64_t ready_ns;  /* its next burst begins then; UINT64_MAX: the job has ended */
	uint64_t served_ns, burst_ends_ns; /* ns of kernels */
};

struct device {
	const struct memory_setup *setup;
	struct list used; /* the one touched longest ago is first */
	uint64_t free_pages, now;
	uint64_t touch_ns, fault_ns; /* of a page */
	struct job *jobs;	     /* owned */
	uint32_t tenants, left;	     /* jobs; that have not ended */
};

void memory_faults_init(struct memory_faults *faults)
{
	*faults = (struct memory_faults){.touch_gbps = 28.9, .fault_gbps = 3.7};
}

/* Makes room for a page. */
static void drive_out(struct device *d)
{
	struct page *page = list_entry(d->used.next, struct page, used);

	list_remove(&page->used);
	page->job->out->left_bytes += PAGE_BYTES;
	page->job->out->copied_bytes += PAGE_BYTES;
}

/* Computes on the next page of the sweep. */
static void touch(struct device *d, struct job *j)
{
	struct page *page = &j->pages[j->at];

	if (list_linked(&page->used)) {
		list_remove(&page->used);
	} else {
		if (d->free_pages)
			d->free_pages--;
		else
			drive_out(d);
		j->out->came_bytes += PAGE_BYTES;
		d->now += d->fault_ns;
	}
	list_append(&d->used, &page->used);
	d->now += d->touch_ns;
	j->served_ns += d->touch_ns;
	j->at = (j->at + 1) % j->size;
}

static void end(struct device *d, struct job *j)
{
	for (uint32_t i = 0; i < j->size; i++) {
		if (!list_linked(&j->pages[i].used))
			continue;
		list_remove(&j->pages[i].used);
		d->free_pages++;
	}
	j->ready_ns = UINT64_MAX;
	j->out->ended_ns = d->now;
	j->out->served_ns = j->served_ns;
	d->left--;
}

/* A time slice. */
static void run_slice(struct device *d, struct job *j)
{
	uint64_t until = d->now + d->setup->slice_ns;

	while (d->now < until && j->served_ns < j->burst_ends_ns)
		touch(d, j);
	if (j->served_ns < j->burst_ends_ns)
		return;
	if (j->served_ns >= j->load->work_ns) {
		end(d, j);
		return;
	}
	j->ready_ns = d->now + j->load->pause_ns;
	j->burst_ends_ns = j->served_ns + j->load->burst_ns;
	if (j->burst_ends_ns > j->load->work_ns)
		j->burst_ends_ns = j->load->work_ns;
}

/* Nobody wants the device: to the next burst. */
static void pass_pause(struct device *d)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < d->tenants; i++)
		if (d->jobs[i].ready_ns < next)
			next = d->jobs[i].ready_ns;
	d->now = next;
}

static void run(struct device *d)
{
	while (d->left && d->now <= d->setup->length_ns) {
		bool any = false;

		for (uint32_t i = 0; i < d->tenants; i++) {
			if (d->jobs[i].ready_ns > d->now)
				continue;
			any = true;
			run_slice(d, &d->jobs[i]);
		}
		if (!any && d->left)
			pass_pause(d);
	}
}

static int make(struct device *d, struct memory_outcome *out, struct fault *why)
{
	if (!d->free_pages) {
		best_effort(fault_set(why, -EINVAL, "the device is smaller than a page of 2MiB"));
		return -EINVAL;
	}
	for (uint32_t i = 0; i < d->tenants; i++) {
		const struct memory_load *load = &d->setup->loads[i];
		struct job *j = &d->jobs[i];

		if (load->steps || !load->set_bytes) {
			best_effort(fault_set(why, -EINVAL,
					      "%s: faults are modelled for jobs with a set",
					      load->name));
			return -EINVAL;
		}
		*j = (struct job){.load = load, .out = &out->tenants[i], .ready_ns = load->join_ns};
		j->size = (uint32_t)((load->set_bytes + PAGE_BYTES - 1) / PAGE_BYTES);
		j->burst_ends_ns = load->burst_ns < load->work_ns ? load->burst_ns : load->work_ns;
		j->pages = calloc(j->size, sizeof(*j->pages));
		if (!j->pages) {
			best_effort(fault_set(why, -ENOMEM, "out of memory"));
			return -ENOMEM;
		}
		for (uint32_t p = 0; p < j->size; p++)
			j->pages[p].job = j;
	}
	return 0;
}

static void unmake(struct device *d)
{
	for (uint32_t i = 0; d->jobs && i < d->tenants; i++)
		free(d->jobs[i].pages);
	free(d->jobs);
}

static void add_up(struct memory_outcome *out, uint32_t tenants)
{
	for (uint32_t i = 0; i < tenants; i++) {
		out->came_bytes += out->tenants[i].came_bytes;
		out->left_bytes += out->tenants[i].left_bytes;
		out->copied_bytes += out->tenants[i].copied_bytes;
	}
}

int memory_faults_run(const struct memory_setup *setup, const struct memory_faults *faults,
		      struct memory_outcome *ret_outcome, struct fault *why)
{
	struct device d = {.setup = setup, .tenants = setup->tenants, .left = setup->tenants};
	struct memory_outcome out = {0};
	int r = -ENOMEM;

	list_init(&d.used);
	d.free_pages = setup->device_bytes / PAGE_BYTES;
	d.touch_ns = (uint64_t)(PAGE_BYTES / faults->touch_gbps);
	d.fault_ns = (uint64_t)(PAGE_BYTES / faults->fault_gbps);
	d.jobs = calloc(setup->tenants, sizeof(*d.jobs));
	out.tenants = calloc(setup->tenants, sizeof(*out.tenants));
	if (d.jobs && out.tenants)
		r = make(&d, &out, why);
	else
		best_effort(fault_set(why, r, "out of memory"));
	if (r < 0) {
		unmake(&d);
		memory_outcome_done(&out, setup->tenants);
		return r;
	}
	run(&d);
	add_up(&out, setup->tenants);
	out.ended_ns = d.now;
	unmake(&d);
	*ret_outcome = out;
	return 0;
}
