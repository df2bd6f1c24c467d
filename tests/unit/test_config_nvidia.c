/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of NVIDIA's keys, beside `mete` and without it. */
#include "plugin/config/config.h"

#include "tests/test.h"
#include "tests/unit/config_parse.h"

TEST(nvidias_keys_are_accepted_and_ignored_ones_are_named)
{
	owned(config_free) struct config *config =
		parse("version: v1\nflags:\n  migStrategy: none\n  failOnInitError: false\n"
		      "  plugin:\n    deviceListStrategy: [envvar]\n    passDeviceSpec: true\n"
		      "  gfd: {oneshot: true}\nresources:\n  gpus: [{pattern: '*', name: gpu}]\n"
		      "sharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n"
		      "    - {name: nvidia.com/gpu, replicas: 6, devices: all}\n"
		      "    - {name: nvidia.com/mig-1g.5gb, replicas: 2}\n"
		      "imex: {channelIDs: [0]}\nmetee: 5\nmete: {}\nflags: &a {x: 1}\n");
	static const char *const wanted[] = {
		"f:7: flags.plugin: the key 'passDeviceSpec' is not known (the nearest is "
		"'passDeviceSpecs'), and is ignored",
		"f:10: resources: this has no meaning for mete and is ignored",
		"f:13: sharing.timeSlicing.renameByDefault: this has no meaning for mete and is "
		"ignored",
		"f:15: sharing.timeSlicing.resources[0].replicas: used for the key mete.slots, "
		"which is not given: 6",
		"f:16: sharing.timeSlicing.resources[1]: only the resource nvidia.com/gpu has a "
		"meaning for mete",
		"f:17: imex: this has no meaning for mete and is ignored",
		"f:18: the key 'metee' is not known (the nearest is 'mete'), and is ignored",
		"f:20: flags: the key 'x' is not known, and is ignored",
	};

	expect_eq(config->slots, 6);
	for (size_t i = 0; i < ARRAY_SIZE(wanted) && i < config->warnings; i++)
		expect_str(config->warning[i], wanted[i]);
	expect_eq(config->warnings, ARRAY_SIZE(wanted));
}

TEST(slots_go_before_replicas_and_mps_is_refused)
{
	owned(config_free) struct config *config = parse(
		"sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 6\n"
		"mete: {slots: 3}\n");

	expect_eq(config->slots, 3);
	expect_eq(config->warnings, 1);
	expect_str(config->warning[0], "f:5: sharing.timeSlicing.resources[0].replicas: mete.slots "
				       "applies, which is 3, and not this 6");
	expect_refused("mete: {}\nsharing:\n  mps:\n    resources: []\n",
		       "f:4: sharing.mps: with the key mete there is no sharing by MPS; accepted: "
		       "timeSlicing, or no sharing");
	config_free(parse("mete: {}\nsharing:\n  mps: null\n"));
	expect_refused(
		"mete: {}\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}\n",
		"f:2: sharing.timeSlicing.resources[0].replicas: '1' is not such a number; "
		"accepted: a whole number from 2 to 1000");
}

TEST(failures_at_the_start_are_waited_out_where_the_file_says_so)
{
	static const struct {
		const char *text;
		bool waits;
	} rows[] = {
		{"mete: {}", false},
		{"flags: {failOnInitError: true}\nmete: {}", false},
		{"flags: {failOnInitError: false}\nmete: {}", true},
		{"flags: {FailOnInitError: no}", true},
		{"flags: {failOnInitError: }\nmete: {}", false},
		{"flags: {failOnInitError: ''}", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(config_free) struct config *config = parse(rows[i].text);

		expect_eq(config->waits, rows[i].waits);
		expect_eq(config->warnings, 0);
	}
	expect_refused(
		"flags: {failOnInitError: maybe}\nmete: {}",
		"f:1: flags.failOnInitError: 'maybe' is not supported by mete; accepted: true "
		"or false");
}

TEST(without_mete_the_file_means_what_it_means_to_nvidias_plugin)
{
	static const char *const texts[] = {
		"version: v1\n",
		"flags:\n",
		"sharing: {mps: , timeSlicing: ~}",
		"{version: '', flags: {plugin: {deviceListStrategy: envvar}}, imex: {channelIDs: "
		"[]}}",
		"flags: {failOnInitError: false, gfd: {oneshot: false}, deviceDiscoveryStrategy: "
		"nvml}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		owned(config_free) struct config *config = parse(texts[i]);
		const struct config_as_nvidia *alone = &config->as_nvidia;

		expect(!config->has_mete && config->has_nvidia);
		expect_eq(config->warnings, 0);
		expect_str(config->resource, "nvidia.com/gpu");
		expect_eq(config->slots, 1);
		expect_eq(alone->replicas, 0);
		expect(!alone->renamed && !alone->one_only && !alone->packed && !alone->by_index);
		expect(!alone->volumes && !alone->specs && !alone->gdrcopy);
		expect_str(alone->dev_root, "/");
	}
}

TEST(without_mete_ignored_keys_are_named_one_by_one)
{
	owned(config_free) struct config *config =
		parse("version: v1\nflags:\n  migStrategie: single\n  mpsRoot: /x\n  mpsroot: ''\n"
		      "  plugin:\n    deviceIdStrategi: index\n    nvidiaCTKPath: /x\n"
		      "resources:\n  gpus: [{pattern: '*', name: gpu}]\n"
		      "sharing:\n  timeSlicin: {}\n  timeSlicing:\n    renameByDefaul: true\n"
		      "    resources:\n    - {name: gpu, replicas: 2, rename: mine}\n"
		      "    - {name: nvidia.com/gpu, replicas: 3, replica: 4}\n");
	static const char *const wanted[] = {
		"f:3: flags: the key 'migStrategie' is not known (the nearest is 'migStrategy'), "
		"and is ignored",
		"f:7: flags.plugin: the key 'deviceIdStrategi' is not known (the nearest is "
		"'deviceIDStrategy'), and is ignored",
		"f:10: resources: this is ignored, as by NVIDIA's plugin",
		"f:12: sharing: the key 'timeSlicin' is not known (the nearest is 'timeSlicing'), "
		"and is ignored",
		"f:14: sharing.timeSlicing: the key 'renameByDefaul' is not known (the nearest is "
		"'renameByDefault'), and is ignored",
		"f:16: sharing.timeSlicing.resources[0].rename: this is ignored, as by NVIDIA's "
		"plugin",
		"f:17: sharing.timeSlicing.resources[1]: the key 'replica' is not known (the "
		"nearest "
		"is 'replicas'), and is ignored",
		"f:17: sharing.timeSlicing.resources[1]: nvidia.com/gpu has a row already, in line "
		"16, which is ignored",
	};

	expect_eq(config->as_nvidia.replicas, 3);
	for (size_t i = 0; i < ARRAY_SIZE(wanted) && i < config->warnings; i++)
		expect_str(config->warning[i], wanted[i]);
	expect_eq(config->warnings, ARRAY_SIZE(wanted));
}

TEST(without_mete_every_flag_that_matters_is_taken)
{
	owned(config_free) struct config *config =
		parse("version: v1\nFLAGS:\n  gdrcopyEnabled: yes\n  GDSEnabled: TRUE\n  "
		      "mofedEnabled: true\n"
		      "  nvidiaDriverRoot: /run/nvidia/driver\n  migStrategy: single\n  plugin:\n"
		      "    passDeviceSpecs: true\n    deviceListStrategy: [envvar, volume-mounts]\n"
		      "    deviceIDStrategy: index\n    sharedDevicesAllocationPolicy: packed\n"
		      "sharing:\n  timeSlicing:\n    renameByDefault: true\n"
		      "    failRequestsGreaterThanOne: true\n    resources:\n"
		      "    - {name: nvidia.com/mig-1g.5gb, replicas: 2}\n"
		      "    - {name: gpu, replicas: 7, devices: 2}\n");
	const struct config_as_nvidia *alone = &config->as_nvidia;

	expect_eq(alone->replicas, 7);
	expect_eq(config->slots, 7);
	expect_str(config->resource, "nvidia.com/gpu.shared");
	expect(alone->renamed && alone->one_only && alone->packed && alone->by_index);
	expect(alone->volumes && alone->specs && alone->gdrcopy && alone->gds && alone->mofed);
	expect_str(alone->dev_root, "/run/nvidia/driver");
	expect_eq(alone->mig, CONFIG_MIG_SINGLE);
	expect_eq(config->warnings, 2);
	expect_str(config->warning[0],
		   "f:18: sharing.timeSlicing.resources[0]: nvidia.com/mig-1g.5gb is offered with "
		   "migStrategy: mixed alone");
	expect_str(config->warning[1], "f:19: sharing.timeSlicing.resources[1].devices: this is "
				       "ignored, as by NVIDIA's plugin");
}

TEST(control_daemons_of_mps_are_of_gpus_or_of_containers)
{
	static const struct {
		const char *said;
		bool apart;
	} rows[] = {{"", false}, {", daemonPer: gpu", false}, {", daemonPer: Container", true}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[200];
		struct config *config;

		snprintf(text, sizeof(text),
			 "{flags: {mpsRoot: /run/mps}, sharing: {mps: {resources: [{name: gpu, "
			 "replicas: 4}]%s}}}",
			 rows[i].said);
		config = parse(text);
		expect(config->as_nvidia.mps);
		expect_eq(config->as_nvidia.mps_apart, rows[i].apart);
		expect_eq(config->warnings, 0);
		config_free(config);
	}
}

TEST(without_mete_impossible_settings_are_refused)
{
	expect_refused(
		"sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
		"f:1: sharing.mps: flags.mpsRoot is missing; accepted: a folder of the host in "
		"which MPS's pipes and logs are kept, as /run/nvidia/mps");
	expect_refused("flags: {plugin: {passDeviceSpecs: 3}}",
		       "f:1: flags.plugin.passDeviceSpecs: '3' is not supported by mete; accepted: "
		       "true or "
		       "false");
	expect_refused(
		"flags: {gdsEnabled: []}",
		"f:1: flags.gdsEnabled: this is not a single value; accepted: true or false");
	expect_refused("flags: {migStrategy: triple}",
		       "f:1: flags.migStrategy: 'triple' is not supported by mete; accepted: none, "
		       "single, mixed or dynamic");
	expect_refused("flags: {deviceDiscoveryStrategy: tegra}",
		       "f:1: flags.deviceDiscoveryStrategy: 'tegra' is not supported by mete; "
		       "accepted: auto "
		       "or nvml");
	expect_refused(
		"flags: {nvidiaDevRoot: run/nvidia}",
		"f:1: flags.nvidiaDevRoot: 'run/nvidia' is not understood; accepted: an absolute "
		"path of at most 255 bytes");
	expect_refused(
		"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}",
		"f:1: sharing.timeSlicing.resources[0]: '1' is not such a number; accepted: a "
		"whole number from 2 to 1000");
	expect_refused("flags: {migStrategy: dynamic}\n"
		       "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, replicas: 2}]}}",
		       "f:2: sharing.timeSlicing.resources[0]: nvidia.com/mig-1g.10gb has no "
		       "replicas with migStrategy: dynamic; accepted: nvidia.com/gpu, or "
		       "migStrategy: mixed");
	expect_refused("version: v1\nmeta: {slots: 3}\n",
		       "f:2: there is no key 'meta'; the nearest is 'mete'");
	expect_refused("version: v2", "f:1: version: 'v2' is not known; accepted: v1");
}
