/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of GPU feature discovery: whole lists, as that program has them (facts, 1.8). */
#include "plugin/nvidia/features.h"

#include <stdio.h>

#include "tests/test.h"

static const struct features a100 = {
	.driver = "580.65.06",
	.cuda = 13000,
	.is_divisible = true,
	.machine = "Standard PC (Q35 + ICH9, 2009)",
	.pci_class = "0x030200",
	.timestamp = 1764172800,
	.model = "NVIDIA A100-SXM4-40GB",
	.count = 8,
	.total_bytes = UINT64_C(40960) << 20,
	.cc_major = 8,
	.replicas = 1,
};

static void add(void *owner, const char *key, const char *value)
{
	char *text = owner;
	size_t length = strlen(text);

	snprintf(text + length, 4096 - length, "%s=%s\n", key, value);
}

static void check(const struct features *features, const char *wanted)
{
	char text[4096] = "";

	features_each(features, add, text);
	expect_str(text, wanted);
}

TEST(whole_gpus_have_the_labels_of_feature_discovery)
{
	check(&a100, "nvidia.com/gfd.timestamp=1764172800\n"
		     "nvidia.com/gpu.machine=Standard-PC-Q35-ICH9-2009\n"
		     "nvidia.com/cuda.driver.major=580\n"
		     "nvidia.com/cuda.driver.minor=65\n"
		     "nvidia.com/cuda.driver.rev=06\n"
		     "nvidia.com/cuda.driver-version.major=580\n"
		     "nvidia.com/cuda.driver-version.minor=65\n"
		     "nvidia.com/cuda.driver-version.revision=06\n"
		     "nvidia.com/cuda.driver-version.full=580.65.06\n"
		     "nvidia.com/cuda.runtime.major=13\n"
		     "nvidia.com/cuda.runtime.minor=0\n"
		     "nvidia.com/cuda.runtime-version.major=13\n"
		     "nvidia.com/cuda.runtime-version.minor=0\n"
		     "nvidia.com/cuda.runtime-version.full=13.0\n"
		     "nvidia.com/mig.capable=true\n"
		     "nvidia.com/mps.capable=false\n"
		     "nvidia.com/gpu.mode=compute\n"
		     "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB\n"
		     "nvidia.com/gpu.count=8\n"
		     "nvidia.com/gpu.replicas=1\n"
		     "nvidia.com/gpu.sharing-strategy=none\n"
		     "nvidia.com/gpu.memory=40960\n"
		     "nvidia.com/gpu.family=ampere\n"
		     "nvidia.com/gpu.compute.major=8\n"
		     "nvidia.com/gpu.compute.minor=0\n");
}

/* The lines from that key on. */
static void check_from(const struct features *features, const char *key, const char *wanted)
{
	char text[4096] = "";
	const char *from;

	features_each(features, add, text);
	from = strstr(text, key);
	expect(from != NULL);
	expect_str(from ? from : "", wanted);
}

TEST(a_fabric_and_virtual_gpus_have_the_labels_of_feature_discovery)
{
	const struct features_vgpu none = {.driver = "", .branch = ""},
				   some = {true, "550.90.05", "r550_90"};
	struct features f = a100;

	f.vgpu = &none;
	check_from(&f, "nvidia.com/gpu.compute.minor",
		   "nvidia.com/gpu.compute.minor=0\n"
		   "nvidia.com/vgpu.present=false\n");
	f.vgpu = &some;
	f.clique = "01234567-89ab-cdef-0123-456789abcdef.7";
	check_from(&f, "nvidia.com/gpu.compute.minor",
		   "nvidia.com/gpu.compute.minor=0\n"
		   "nvidia.com/gpu.clique=01234567-89ab-cdef-0123-456789abcdef.7\n"
		   "nvidia.com/vgpu.present=true\n"
		   "nvidia.com/vgpu.host-driver-version=550.90.05\n"
		   "nvidia.com/vgpu.host-driver-branch=r550_90\n");
}

TEST(gpus_that_mps_shares_say_so)
{
	struct features shared = a100;
	char text[4096] = "";

	shared.replicas = 4;
	shared.mps = true;
	features_each(&shared, add, text);
	expect(strstr(text, "nvidia.com/mps.capable=true\n"));
	expect(strstr(text, "nvidia.com/gpu.sharing-strategy=mps\n"));
	expect(strstr(text, "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-SHARED\n"));
}

static const struct gpu_part small = {.multiprocessors = 14,
				      .gpu_slices = 1,
				      .compute_slices = 1,
				      .copy_engines = 1,
				      .memory_mib = 4864};

TEST(single_gives_the_labels_of_parts_to_gpus)
{
	const struct features_kind kind = {"gpu", "1g.5gb", 56, 1, false, &small};
	struct features f = a100;

	f.strategy = "single";
	f.kinds = 1;
	f.kind = &kind;
	check_from(&f, "nvidia.com/mig.strategy",
		   "nvidia.com/mig.strategy=single\n"
		   "nvidia.com/gpu.family=ampere\n"
		   "nvidia.com/gpu.compute.major=8\n"
		   "nvidia.com/gpu.compute.minor=0\n"
		   "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb\n"
		   "nvidia.com/gpu.count=56\n"
		   "nvidia.com/gpu.replicas=1\n"
		   "nvidia.com/gpu.sharing-strategy=none\n"
		   "nvidia.com/gpu.memory=4864\n"
		   "nvidia.com/gpu.multiprocessors=14\n"
		   "nvidia.com/gpu.slices.gi=1\n"
		   "nvidia.com/gpu.slices.ci=1\n"
		   "nvidia.com/gpu.engines.copy=1\n"
		   "nvidia.com/gpu.engines.decoder=0\n"
		   "nvidia.com/gpu.engines.encoder=0\n"
		   "nvidia.com/gpu.engines.jpeg=0\n"
		   "nvidia.com/gpu.engines.ofa=0\n");
	f.invalid = true;
	check_from(&f, "nvidia.com/mig.strategy",
		   "nvidia.com/mig.strategy=single\n"
		   "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-INVALID\n"
		   "nvidia.com/gpu.count=0\n"
		   "nvidia.com/gpu.replicas=0\n"
		   "nvidia.com/gpu.sharing-strategy=\n"
		   "nvidia.com/gpu.memory=0\n"
		   "nvidia.com/gpu.family=ampere\n"
		   "nvidia.com/gpu.compute.major=8\n"
		   "nvidia.com/gpu.compute.minor=0\n");
}

TEST(mixed_gives_each_kind_of_parts_labels_of_its_own)
{
	const struct features_kind kinds[] = {{"mig-1g.5gb", "1g.5gb", 2, 4, false, &small},
					      {"mig-1g.5gb.me", "1g.5gb+me", 1, 4, true, &small}};
	struct features f = a100;

	f.strategy = "mixed";
	f.kinds = 2;
	f.kind = kinds;
	check_from(&f, "nvidia.com/gpu.compute.minor",
		   "nvidia.com/gpu.compute.minor=0\n"
		   "nvidia.com/mig-1g.5gb.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED\n"
		   "nvidia.com/mig-1g.5gb.count=2\n"
		   "nvidia.com/mig-1g.5gb.replicas=4\n"
		   "nvidia.com/mig-1g.5gb.sharing-strategy=time-slicing\n"
		   "nvidia.com/mig-1g.5gb.memory=4864\n"
		   "nvidia.com/mig-1g.5gb.multiprocessors=14\n"
		   "nvidia.com/mig-1g.5gb.slices.gi=1\n"
		   "nvidia.com/mig-1g.5gb.slices.ci=1\n"
		   "nvidia.com/mig-1g.5gb.engines.copy=1\n"
		   "nvidia.com/mig-1g.5gb.engines.decoder=0\n"
		   "nvidia.com/mig-1g.5gb.engines.encoder=0\n"
		   "nvidia.com/mig-1g.5gb.engines.jpeg=0\n"
		   "nvidia.com/mig-1g.5gb.engines.ofa=0\n"
		   "nvidia.com/mig-1g.5gb.me.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me\n"
		   "nvidia.com/mig-1g.5gb.me.count=1\n"
		   "nvidia.com/mig-1g.5gb.me.replicas=4\n"
		   "nvidia.com/mig-1g.5gb.me.sharing-strategy=time-slicing\n"
		   "nvidia.com/mig-1g.5gb.me.memory=4864\n"
		   "nvidia.com/mig-1g.5gb.me.multiprocessors=14\n"
		   "nvidia.com/mig-1g.5gb.me.slices.gi=1\n"
		   "nvidia.com/mig-1g.5gb.me.slices.ci=1\n"
		   "nvidia.com/mig-1g.5gb.me.engines.copy=1\n"
		   "nvidia.com/mig-1g.5gb.me.engines.decoder=0\n"
		   "nvidia.com/mig-1g.5gb.me.engines.encoder=0\n"
		   "nvidia.com/mig-1g.5gb.me.engines.jpeg=0\n"
		   "nvidia.com/mig-1g.5gb.me.engines.ofa=0\n");
}

TEST(an_unknown_property_has_no_label_or_says_so)
{
	const struct features bare = {.driver = "",
				      .pci_class = "",
				      .model = "Simulated GPU",
				      .count = 1,
				      .total_bytes = UINT64_C(4) << 30,
				      .replicas = 4};

	check(&bare, "nvidia.com/gpu.machine=unknown\n"
		     "nvidia.com/mig.capable=false\n"
		     "nvidia.com/mps.capable=false\n"
		     "nvidia.com/gpu.mode=unknown\n"
		     "nvidia.com/gpu.product=Simulated-GPU-SHARED\n"
		     "nvidia.com/gpu.count=1\n"
		     "nvidia.com/gpu.replicas=4\n"
		     "nvidia.com/gpu.sharing-strategy=time-slicing\n"
		     "nvidia.com/gpu.memory=4096\n");
}

/* The value of one label. */
struct found {
	const char *key;
	char value[FEATURE_VALUE];
};

static void look(void *owner, const char *key, const char *value)
{
	struct found *found = owner;

	if (strcmp(key, found->key) == 0)
		snprintf(found->value, sizeof(found->value), "%s", value);
}

static void expect_label(const struct features *features, const char *key, const char *value)
{
	struct found found = {.key = key, .value = ""};

	features_each(features, look, &found);
	expect_str(found.value, value);
}

TEST(shared_gpus_are_called_so_unless_their_resource_is_renamed)
{
	struct features f = a100;

	f.replicas = 10;
	expect_label(&f, "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-SHARED");
	f.renamed = true;
	expect_label(&f, "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB");
	expect_label(&f, "nvidia.com/gpu.replicas", "10");
	expect_label(&f, "nvidia.com/gpu.sharing-strategy", "time-slicing");
}

TEST(a_gpu_that_reports_no_memory_has_no_label_of_it)
{
	struct features f = a100;

	expect_label(&f, "nvidia.com/gpu.memory", "40960");
	f.total_bytes = 0;
	expect_label(&f, "nvidia.com/gpu.memory", "");
}

TEST(families_modes_and_versions)
{
	static const struct {
		int major, minor;
		const char *family;
	} rows[] = {{3, 5, "kepler"},	    {5, 2, "maxwell"}, {6, 1, "pascal"},
		    {7, 0, "volta"},	    {7, 5, "turing"},  {8, 6, "ampere"},
		    {8, 9, "ada-lovelace"}, {9, 0, "hopper"},  {10, 0, "blackwell"},
		    {12, 0, "blackwell"},   {13, 0, "rubin"},  {4, 0, "undefined"},
		    {99, 0, "undefined"}};
	struct features f = a100;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f.cc_major = rows[i].major;
		f.cc_minor = rows[i].minor;
		expect_label(&f, "nvidia.com/gpu.family", rows[i].family);
	}
	f.pci_class = "0x030000";
	expect_label(&f, "nvidia.com/gpu.mode", "graphics");
	f.driver = "570.12";
	expect_label(&f, "nvidia.com/cuda.driver-version.revision", "");
	expect_label(&f, "nvidia.com/cuda.driver-version.minor", "12");
}

TEST(a_value_is_always_one_that_kubernetes_accepts)
{
	struct features f = a100;

	f.machine = "NVIDIA  DGX - Spark / (2) ";
	expect_label(&f, "nvidia.com/gpu.machine", "NVIDIA-DGX---Spark-2");
	f.machine = "  --(c) M\xc3\xa4x \"1\" -- ";
	expect_label(&f, "nvidia.com/gpu.machine", "c-Mx-1");
	f.machine = "\tHGX H100\n8-GPU \n board\n";
	expect_label(&f, "nvidia.com/gpu.machine", "HGX-H1008-GPU-board");
	f.machine = " \n";
	expect_label(&f, "nvidia.com/gpu.machine", "");
	f.machine = "";
	expect_label(&f, "nvidia.com/gpu.machine", "");
	f.machine = "...";
	expect_label(&f, "nvidia.com/gpu.machine", "");
	f.machine = "0123456789012345678901234567890123456789012345678901234567890123456789";
	expect_label(&f, "nvidia.com/gpu.machine",
		     "012345678901234567890123456789012345678901234567890123456789012");
}
