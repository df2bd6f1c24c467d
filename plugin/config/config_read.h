/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a configuration; shared by plugin/config/config*.c only. */
#pragma once

#include "base/document.h"
#include "plugin/config/config.h"

struct config_text;

enum { CONFIG_SAID_MAX = 96 };

struct config_read {
	const char *name;
	struct fault *why;
	struct config *config; /* being built */
	struct config_text *texts;
	char path[96]; /* the current position: "mete.devices[2].share" */
	size_t path_length;

	/* For NVIDIA's keys (config_setting.c). */
	const struct document_node *root;
	char *(*variable)(const char *name); /* NULL: there is no environment */
	const char *from; /* the variable that the present value is from; NULL: the file */
	struct document_node said[CONFIG_SAID_MAX]; /* values of the environment */
	uint32_t said_count;

	/* For `nodes`. */
	const struct document_node *nodes;
	const struct config_label *labels;
	size_t label_count;
	bool in_node;		      /* an entry of `nodes` is being read */
	bool labels_said, labels_met; /* whether its labels were given, and matched */
};

/* The keys of a map and their handlers. */
struct config_section {
	const char *const *names;
	size_t count;
	int (*value)(struct config_read *read, size_t index, const struct document_node *value,
		     void *owner);
};

/* "NAME:LINE: PATH: ...", or "$VARIABLE: ..."; -EINVAL. */
int config_wrong(struct config_read *read, uint32_t line, const char *format, ...)
	printf_like(3, 4);
/* "NAME:LINE: PATH: 'TEXT' PROBLEM; accepted: ACCEPTED". */
int config_refuse(struct config_read *read, const struct document_node *value, const char *problem,
		  const char *accepted);
/* If there are more than fit, the last one counts them. -ENOMEM. */
must_check int config_warn(struct config_read *read, uint32_t line, const char *format, ...)
	printf_like(3, 4);

/* config_leave() takes what config_enter() returned. */
size_t config_enter(struct config_read *read, const char *format, ...) printf_like(2, 3);
void config_leave(struct config_read *read, size_t before);

/* A copy of the text that the configuration owns. */
must_check int config_keep(struct config_read *read, const char *text, const char **ret_text);
void config_texts_free(struct config_text *texts);

/* The value as a non-empty text; borrowed from the document. */
must_check int config_text(struct config_read *read, const struct document_node *value,
			   const char *accepted, const char **ret_text);
/* An unknown or repeated key is a mistake. No value counts as an empty map. */
must_check int config_walk(struct config_read *read, const struct document_node *map,
			   const struct config_section *section, void *owner);
must_check int config_is_list(struct config_read *read, const struct document_node *value,
			      const char *accepted);

#define CONFIG_TAKE(kind, type)                                                                    \
	must_check int config_take_##kind(struct config_read *read,                                \
					  const struct document_node *value, const char *accepted, \
					  type *field)
CONFIG_TAKE(resource, const char *);
CONFIG_TAKE(domain, const char *);
CONFIG_TAKE(ids, enum config_ids);
CONFIG_TAKE(counted, enum config_counted);
CONFIG_TAKE(milli, bool);
CONFIG_TAKE(slots, uint32_t);
CONFIG_TAKE(percent, uint32_t);
CONFIG_TAKE(period, uint64_t);
CONFIG_TAKE(strangers, enum config_strangers);
CONFIG_TAKE(cdi, enum config_cdi);
CONFIG_TAKE(delivery, bool);
CONFIG_TAKE(turned, bool);
CONFIG_TAKE(mig, bool);
CONFIG_TAKE(path, const char *);
CONFIG_TAKE(kubelet, const char *);
CONFIG_TAKE(credential, const char *);
CONFIG_TAKE(address, const char *);
CONFIG_TAKE(node_name, const char *);
CONFIG_TAKE(match, const char *);
CONFIG_TAKE(name, const char *);
CONFIG_TAKE(days, uint32_t);
CONFIG_TAKE(minute, uint32_t);
CONFIG_TAKE(minute_end, uint32_t);
CONFIG_TAKE(share, struct config_share);
CONFIG_TAKE(portion, struct config_share); /* of a rule */
CONFIG_TAKE(devices, uint32_t);
CONFIG_TAKE(profiles, uint32_t);
CONFIG_TAKE(nodes, uint32_t);

/* Of `mete`; the value of its `nodes` is left in read->nodes. */
extern const struct config_section config_mete_section;
/* Applies the first matching entry of read->nodes to the configuration; checks all of them. */
must_check int config_lay_node(struct config_read *read);
/* A key for NVIDIA's plugin: any top-level key except `mete`. */
must_check int config_take_nvidia(struct config_read *read, const struct document_node *value);

/* flags.failOnInitError, of any file. */
must_check int config_take_init(struct config_read *read);
/* Reads a whole file without `mete`; config_take_nvidia() has seen each of its keys. */
must_check int config_take_without_mete(struct config_read *read);
/* config_gfd.c: flags.gfd of it, of which a map is enough to ask for labels. */
must_check int config_take_gfd(struct config_read *read);
/* config_mps.c: sharing.mps of it, after its other flags. */
must_check int config_take_mps(struct config_read *read);
/* Its settings: on or off; an absolute path, where one is given. */
must_check int config_take_switch(struct config_read *read, const char *path, bool *ret_on);
must_check int config_take_folder(struct config_read *read, const char *path, const char **field);

/* Finds the value that NVIDIA's plugin would use for a key such as "flags.plugin.passDeviceSpecs":
 * that of the environment (then read->from is set), otherwise that of the file. *ret_value NULL:
 * neither has one. */
must_check int config_setting(struct config_read *read, const char *path,
			      const struct document_node **ret_value);
/* That the value is not one of these. */
int config_refuse_setting(struct config_read *read, const struct document_node *value,
			  const char *path, const char *accepted);
/* Takes one of the words: *ret_word is its index. No value, or an empty one, is the first. */
must_check int config_take_word(struct config_read *read, const char *path,
				const char *const *words, size_t count, const char *accepted,
				uint32_t *ret_word);
/* Warns of each variable that is set and has no effect here. */
must_check int config_warn_of_variables(struct config_read *read);
/* How a key of NVIDIA's is treated in a file without `mete`. */
enum config_use { CONFIG_TAKEN, CONFIG_IGNORED, CONFIG_THEIRS, CONFIG_REFUSED };
/* Finds a key as NVIDIA's plugin does; NULL: it is missing. */
const struct document_node *config_find(const struct document_node *map, const char *key);
/* How many replicas a row of NVIDIA's sharing asks for: from 2 to 1000. */
must_check int config_take_replicas(struct config_read *read, const struct document_node *value,
				    uint32_t *ret_replicas);
/* Reads each row of it. */
typedef int config_row(struct config_read *read, const struct document_node *row, void *owner);
must_check int config_each_row(struct config_read *read, const struct document_node *list,
			       config_row *each, void *owner);
/* Says which keys of a row are ignored, and reads how many replicas it asks for. `folder`:
 * "sharing.timeSlicing.resources[]", or that of MPS. */
must_check int config_check_row(struct config_read *read, const struct document_node *resource,
				const char *folder, uint32_t *ret_replicas);
/* config_rows.c: what NVIDIA's plugin refuses in `resources`, which it ignores otherwise. */
must_check int config_check_resources(struct config_read *read, const struct document_node *value);
/* config_rows.c: the values of a row, as NVIDIA's plugin checks them. */
must_check int config_check_values(struct config_read *read, const struct document_node *row,
				   uint32_t *ret_replicas);
/* Where resources are renamed by default: is the value the row's `rename`, and the name that it
 * gets anyway? */
bool config_is_default_rename(const struct config_read *read, const struct document_node *row,
			      const struct document_node *value);
/* The rows of "sharing.timeSlicing" or "sharing.mps", at least one; NULL: the file does not have
 * the map. */
must_check int config_find_rows(struct config_read *read, const char *folder,
				const struct document_node **ret_list);
/* "nvidia.com/gpu", with its domain or without. */
bool config_is_gpu(const struct document_node *resource);
/* Is the value this one, or empty? `normally` NULL: always. */
bool config_is_usual(const struct document_node *value, const char *normally);

/* Checks the sum over all slots, in all profiles, of amounts that are given as parts of a
 * device. */
must_check int config_check_sums(const struct config *config, struct fault *why);

/* The first profile that applies at this time; NULL: none. */
const struct config_profile *config_profile_at(const struct config *config, const struct tm *now);
/* The first rule that matches; NULL: none. */
const struct config_rule *config_rule_of(const struct config *config,
					 const struct config_device *device);
