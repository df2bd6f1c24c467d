/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inject/cdi_choice.h"

#include <string.h>

#include "tests/test.h"

static const char ask[] =
	"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = true\n";
static const char deny[] = "enable_cdi=false\n# enable_cdi = true\n";

TEST(runtimes_with_cdi_are_known_by_version_and_by_containerds_file)
{
	static const struct {
		struct cdi_facts facts;
		bool chosen;
		const char *says;
	} rows[] = {
		{{NULL, NULL, NULL, false},
		 true,
		 "nothing says that the container runtime lacks CDI"},
		{{NULL, NULL, NULL, true}, true, "the folder of CDI files exists"},
		{{ask, NULL, NULL, false}, true, "enable_cdi = true"},
		{{deny, NULL, NULL, true}, false, "enable_cdi = false"},
		{{deny, "containerd://2.1.4", "v1.36.0", true}, false, "enable_cdi = false"},
		{{"", "containerd://1.7.27", "v1.31.0", true},
		 false,
		 "containerd 1.7 reads no CDI files without"},
		{{ask, "containerd://1.7.27-k3s1", "v1.31.0", true}, true, "enable_cdi = true"},
		{{ask, "containerd://1.6.9", "v1.31.0", true},
		 false,
		 "containerd 1.6 reads no CDI files"},
		{{"enable_cdi_x = false", "containerd://2.0.0", NULL, false},
		 true,
		 "containerd 2.0 reads"},
		{{deny, "cri-o://1.30.1", "v1.30.1", false}, true, "CRI-O"},
		{{ask, "cri-o://1.27.1", "v1.28.15+abc", true}, false, "the kubelet (1.28)"},
		{{NULL, "docker://20.10", "v1.30.0", true},
		 false,
		 "not known to support CDI: docker"},
		{{NULL, "containerd://", "v1.30.0", true}, true, "the folder"},
		{{NULL, "containerd://x.y", "vx", false}, true, "nothing says"},
		{{"enable_cdi = true", NULL, NULL, false}, true, "enable_cdi = true"},
		{{"enable_cdi = perhaps\nenable_cdi\n", NULL, NULL, false}, true, "nothing says"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fault reason;

		if (cdi_choice(&rows[i].facts, &reason) != rows[i].chosen ||
		    !strstr(reason.text, rows[i].says))
			test_fail(__FILE__, __LINE__, "row %zu: %s", i, reason.text);
	}
}
