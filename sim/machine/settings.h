/* SPDX-License-Identifier: Apache-2.0 */
/*                                                             sim/machine/settings.h
 * The description of the simulated machine, from the environment: the devices (models.def) and the
 * settings (settings.def), plus METE_SIM_DEVICES ("2xH200,1xT4"), METE_SIM_PARTS (how MIG divides
 * them when the node begins: "0:7x1g.18gb;1:3g.71gb,2g.35gb"), METE_SIM_DIR (the folder that
 * processes share, default /dev/shm/mete-sim-UID) and METE_SIM_FAULTS (see faults.h).
 *
 * Parses; decides nothing, keeps nothing. Rates in struct settings_device are final: the overrides
 * and METE_SIM_RATE are worked in.
 *
 * Spellings: bytes take K, M, G, T (KB, KiB and so on are the same: powers of 1024, as
 * core/share/share.h has it; of rates K and KB are powers of 1000); times take ns, us, ms, s;
 * factors are decimal numbers; switches are on, off, 1 or 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/macros.h"

#define SETTINGS_DEVICES_MAX 16
#define SETTINGS_PARTS_MAX   56 /* of all devices, by MIG */
#define SETTINGS_PATH_MAX    96 /* of METE_SIM_DIR: sockets lie in it as well */

enum {
	SETTINGS_PATTERN_BYTE = 0xc9,	 /* what METE_SIM_PATTERN fills memory with */
	SETTINGS_RESERVED_SHARED = 1024, /* bytes of each block, from capability 8.0 on */
};

/* The shape of one device: a row of models.def with the overrides applied. */
struct settings_device {
	char model[16]; /* as METE_SIM_DEVICES names it */
	char name[64];
	uint64_t memory_bytes;
	uint32_t sms;
	uint32_t capability_major, capability_minor;
	uint32_t clock_mhz, memory_clock_mhz, bus_bits;
	uint32_t cores_per_sm;
	uint32_t shared_per_sm_bytes, shared_per_block_bytes; /* the latter: at most, opted in */
	uint64_t l2_bytes;
	uint64_t device_rate, link_rate, peer_rate; /* bytes/s, the latter two per direction */
	uint64_t instruction_rate;		    /* thread instructions per second */
	uint32_t nvlinks, pcie_generation, power_watt, pci_device;
};

enum settings_kind {
	SETTINGS_BYTES,
	SETTINGS_RATE,	  /* per second */
	SETTINGS_COUNT,	  /* a whole number */
	SETTINGS_FACTOR,  /* in millionths */
	SETTINGS_TIME,	  /* nanoseconds */
	SETTINGS_VERSION, /* 12.9 is 12090 */
	SETTINGS_SWITCH,  /* 0 or 1 */
};

#define SETTINGS_FACTOR_ONE 1000000

/* A part of a GPU by MIG: `profile` is a row of mig.def (mig.h), `start` its first memory slice. */
struct settings_part {
	uint32_t gpu, profile, start;
};

/* Plain data without padding that matters: lies in the segment, compared field by field. */
struct settings {
#define NODE(field, variable, kind, value, least, most, meaning)  uint64_t field;
#define LOCAL(field, variable, kind, value, least, most, meaning) uint64_t field;
#include "sim/machine/settings.def"
#undef NODE
#undef LOCAL
	uint64_t given; /* bit per row: set in the environment; settings_row() numbers them */
	uint32_t device_count, devices_given;
	struct settings_device devices[SETTINGS_DEVICES_MAX];
	/* The parts of METE_SIM_PARTS, with which a node begins; its processes may change them. */
	uint32_t part_count;
	struct settings_part parts[SETTINGS_PARTS_MAX];
};

/* One row of settings.def, for programs that print or compare them. */
struct settings_row {
	const char *field, *variable, *value, *least, *most, *meaning;
	enum settings_kind kind;
	bool node;     /* shared by the processes of a node */
	size_t offset; /* of the uint64_t in struct settings */
};

/* NULL behind the last. */
const struct settings_row *settings_row(size_t number);

/* The names of models.def, in order; NULL behind the last. */
const char *settings_model(size_t number);

/* Sets the values that models.def has for a model; for an unknown one they stay. */
void settings_model_size(const char *ident, uint64_t *ret_mib, uint32_t *ret_sms);

uint64_t settings_value(const struct settings *settings, const struct settings_row *row);

/* "on", "0", "no" and such: 1 or 0. */
must_check int settings_parse_switch(const char *text, uint64_t *ret_value);

/* "5ms" */
must_check int settings_parse_time(const char *text, uint64_t *ret_ns);

/* Reads the environment. -EINVAL with a sentence: variable, value, what is accepted. */
must_check int settings_load(struct settings *ret_settings, struct fault *why);

/* Reads a single setting, by its field. -EINVAL likewise. */
must_check int settings_read(const char *field, uint64_t *ret_value, struct fault *why);

/* As METE_SIM_DIR says, or the default. -EINVAL where it is not absolute or too long. */
must_check int settings_folder(char ret_path[SETTINGS_PATH_MAX], struct fault *why);

/*
 * Makes `mine` agree with the settings of the node that it joins: rows that were not given are
 * taken over. -EEXIST with a sentence if one that was given differs.
 */
must_check int settings_adopt(struct settings *mine, const struct settings *node,
			      struct fault *why);
