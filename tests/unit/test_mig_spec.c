/* SPDX-License-Identifier: Apache-2.0 */
/* mig-parted's file: what it may say, and which mistakes are refused with which sentence. */
#include "mig/spec.h"
#include "tests/test.h"

#define HEAD "version: v1\nmig-configs:\n"

static int parse(const char *text, const char *name, struct mig_spec *spec, struct fault *why)
{
	return mig_spec_parse("m.yaml", text, strlen(text), name, spec, why);
}

static void refuses(const char *text, const char *sentence)
{
	struct mig_spec spec;
	struct fault why;

	expect(parse(text, "a", &spec, &why) < 0);
	expect_str(why.text, sentence);
}

TEST(a_row_names_gpus_and_their_division)
{
	owned(mig_spec_done) struct mig_spec spec = {0};
	const struct mig_model h100 = {0x233010de, 0x16c110de}, other = {0x233010de, 1};
	struct fault why;

	expect_eq(parse(HEAD "  a:\n"
			     "  - devices: [0, 2]\n"
			     "    mig-enabled: y\n"
			     "    device-filter: ['0x233010DE:0x16C110DE', 0x20B210DE]\n"
			     "    mig-devices: {1g.10gb: 2, \"1g.10gb+me\": 1, 7g.80gb: 0}\n"
			     "  - {devices: all, mig-enabled: False}\n",
			"a", &spec, &why),
		  0);
	expect_str(spec.name, "a");
	expect_eq(spec.rows, 2);
	expect(spec.row[0].wish.enabled && !spec.row[1].wish.enabled);
	expect_eq(spec.row[0].wish.kinds, 2); /* none of a profile is no wish */
	expect_str(spec.row[0].wish.kind[1].name, "1g.10gb+me");
	expect_eq(spec.row[0].wish.kind[0].count, 2);
	expect(mig_row_matches(&spec.row[0], 2, h100));
	expect(!mig_row_matches(&spec.row[0], 1, h100));
	expect(!mig_row_matches(&spec.row[0], 2, other)); /* another board */
	expect(mig_row_matches(&spec.row[0], 0, (struct mig_model){0x20b210de, 7}));
	expect(mig_row_matches(&spec.row[1], 63, other));
}

TEST(one_configuration_of_several_is_selected_by_name)
{
	static const char both[] =
		HEAD "  a:\n  - {devices: all, mig-enabled: false}\n"
		     "  b:\n  - {devices: all, mig-enabled: true, mig-devices: {}}\n";
	owned(mig_spec_done) struct mig_spec spec = {0};
	struct fault why;

	expect_eq(parse(both, "b", &spec, &why), 0);
	expect(spec.row[0].wish.enabled);
	mig_spec_done(&spec);
	expect_eq(
		parse(HEAD "  only:\n  - {devices: all, mig-enabled: false}\n", NULL, &spec, &why),
		0);
	expect_str(spec.name, "only");
	mig_spec_done(&spec);
	expect_eq(parse(both, NULL, &spec, &why), -ENOENT);
	expect_str(why.text, "m.yaml: it has several configurations, and none is selected");
	expect_eq(parse(both, "c", &spec, &why), -ENOENT);
	expect_str(why.text, "m.yaml: it has no configuration 'c'");
}

TEST(mistakes_are_refused_with_their_row)
{
	static const struct {
		const char *text, *sentence;
	} rows[] = {
		{"", "m.yaml: it has no version; accepted: v1"},
		{"version: v2\n", "m.yaml:1: version 'v2'; accepted: v1"},
		{"version: v1\n", "m.yaml: it has no mig-configs"},
		{"version: v1\nconfigs: {}\n",
		 "m.yaml:2: unknown key 'configs'; accepted: version, mig-configs"},
		{HEAD "  a: []\n",
		 "m.yaml:3: mig-configs: 'a' has no rows; accepted: a list of them"},
		{HEAD "  a: [{devices: all}]\n", "m.yaml:3: a row lacks a key; accepted: rows with "
						 "at least devices and mig-enabled"},
		{HEAD "  a: [{devices: some, mig-enabled: false}]\n",
		 "m.yaml:3: devices 'some'; accepted: all, or a list of indices of GPUs, such as "
		 "[0, 1]"},
		{HEAD "  a: [{devices: [-1], mig-enabled: false}]\n",
		 "m.yaml:3: devices '-1'; accepted: all, or a list of indices of GPUs, such as "
		 "[0, 1]"},
		{HEAD "  a: [{devices: all, mig-enabled: maybe}]\n",
		 "m.yaml:3: mig-enabled 'maybe'; accepted: true or false"},
		{HEAD "  a: [{devices: all, mig-enabled: true}]\n",
		 "m.yaml:3: mig-enabled without mig-devices; accepted: mig-devices with profiles, "
		 "or "
		 "{} for none"},
		{HEAD "  a: [{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}]\n",
		 "m.yaml:3: mig-devices beside mig-enabled: false; accepted: no mig-devices there"},
		{HEAD "  a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}]\n",
		 "m.yaml:3: mig-devices: all numbers are 0; accepted: at least one part, or "
		 "mig-devices: {}"},
		{HEAD "  a: [{devices: all, mig-enabled: true, mig-devices: {small: 1}}]\n",
		 "m.yaml:3: mig-devices: 'small' is no profile; accepted: names such as 1g.10gb or "
		 "1g.10gb+me"},
		{HEAD "  a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: many}}]\n",
		 "m.yaml:3: the number of parts 'many'; accepted: a whole number"},
		{HEAD
		 "  a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1, 1g.5gb: 2}}]\n",
		 "m.yaml:3: the profile is there twice '2'; accepted: one number for each"},
		{HEAD "  a: [{devices: all, mig-enabled: false, device-filter: H100}]\n",
		 "m.yaml:3: device-filter 'H100'; accepted: a model as the PCI bus numbers it "
		 "(0x233010DE), or a list of them, each perhaps with its board "
		 "(0x233010DE:0x16C110DE)"},
		{HEAD "  a: [{devices: all, mig-enabled: false, when: now}]\n",
		 "m.yaml:3: unknown key 'when'; accepted: device-filter, devices, mig-enabled, "
		 "mig-devices"},
		/* A mistake in another configuration counts as well. */
		{HEAD "  a: [{devices: all, mig-enabled: false}]\n  b: [{}]\n",
		 "m.yaml:4: a row lacks a key; accepted: rows with at least devices and "
		 "mig-enabled"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		refuses(rows[i].text, rows[i].sentence);
}
