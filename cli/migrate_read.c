/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate_read.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/words.h"

enum { LABEL_MAX = WORDS_SUBDOMAIN_MAX + 1 + WORDS_LABEL_MAX }; /* with a slash */

const struct document_node *migrate_at(const struct document_node *map, ...)
{
	va_list keys;
	const char *key;

	va_start(keys, map);
	while (map && (key = va_arg(keys, const char *))) {
		const struct document_node *value = map->kind == DOCUMENT_MAP ? map->first : NULL;

		while (value && strcmp(value->key, key) != 0)
			value = value->next;
		map = value;
	}
	va_end(keys);
	return map;
}

const char *migrate_text(const struct document_node *text)
{
	return text && text->kind == DOCUMENT_TEXT ? text->text : "";
}

/* ---- what an object is ----------------------------------------------------------------------- */

bool migrate_runs(const struct document_node *container, const char *program)
{
	const struct document_node *command = migrate_at(container, "command", NULL);

	return strstr(migrate_text(migrate_at(container, "name", NULL)), program) ||
	       (command && command->first && strstr(migrate_text(command->first), program));
}

/* Feature discovery, the control daemon of MPS, and the container that chooses a configuration have
 * the same image. */
static bool is_plugins(const struct document_node *container)
{
	static const char *const others[] = {"config-manager", "gpu-feature-discovery",
					     "mps-control"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (migrate_runs(container, others[i]))
			return false;
	return strstr(migrate_text(migrate_at(container, "image", NULL)), "k8s-device-plugin");
}

static int add_plugin(struct migrate_objects *objects, const struct document_node *object,
		      struct fault *why)
{
	const struct document_node *one =
		migrate_at(object, "spec", "template", "spec", "containers", NULL);

	for (one = one ? one->first : NULL; one; one = one->next) {
		const char *image = migrate_text(migrate_at(one, "image", NULL));

		if (strstr(image, "virtual-gpu-device-plugin") ||
		    strstr(image, "nvidia-gpu-device-plugin"))
			objects->stranger = object;
		if (migrate_runs(one, "gpu-feature-discovery"))
			objects->discovery = object;
		if (!is_plugins(one))
			continue;
		if (objects->plugin)
			return fault_set(
				why, -EEXIST,
				"there are two DaemonSets of NVIDIA's device plugin, %s "
				"and %s: give one of them as a file",
				migrate_text(migrate_at(objects->plugin, "metadata", "name", NULL)),
				migrate_text(migrate_at(object, "metadata", "name", NULL)));
		objects->plugin = object;
		objects->container = one;
		return 0;
	}
	return 0;
}

static int add_object(struct migrate_objects *objects, const struct document_node *object,
		      struct fault *why)
{
	const char *kind = migrate_text(migrate_at(object, "kind", NULL));
	const struct document_node *items = migrate_at(object, "items", NULL);
	int r = 0;

	if (strcmp(kind, "DaemonSet") == 0)
		return add_plugin(objects, object, why);
	if (strcmp(kind, "ConfigMap") == 0) {
		if (objects->maps == MIGRATE_MAPS)
			return fault_set(why, -E2BIG, "more than %d ConfigMaps", MIGRATE_MAPS);
		objects->map[objects->maps++] = object;
	} else if (strcmp(kind, "Node") == 0) {
		if (objects->nodes == MIGRATE_NODES)
			return fault_set(why, -E2BIG, "more than %d nodes", MIGRATE_NODES);
		objects->node[objects->nodes++] = object;
	}
	for (items = items ? items->first : NULL; items && r == 0; items = items->next)
		r = add_object(objects, items, why);
	return r;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static int add_document(struct migrate_objects *objects, const char *name, const char *text,
			size_t size, struct fault *why)
{
	struct document *document = &objects->document[objects->documents];
	int r;

	if (objects->documents == MIGRATE_DOCUMENTS)
		return fault_set(why, -E2BIG, "%s: more than %d documents", name,
				 MIGRATE_DOCUMENTS);
	r = document_parse(name, text, size, document, why);
	if (r < 0)
		return r;
	objects->documents++;
	return document->root ? add_object(objects, document->root, why) : 0;
}

/* A document ends where a line begins with "---". Lines before it are kept as empty ones, so that
 * sentences have the file's lines. */
static int add_text(struct migrate_objects *objects, const char *name, char *text, size_t size,
		    struct fault *why)
{
	char *begin = text, *end = text + size;
	int r = 0;

	for (char *line = text; r == 0 && line < end; line += strcspn(line, "\n") + 1) {
		if (strncmp(line, "---", 3) != 0)
			continue;
		r = add_document(objects, name, text, (size_t)(line - text), why);
		line[0] = line[1] = line[2] = ' ';
		for (; begin < line; begin++)
			if (*begin != '\n')
				*begin = ' ';
	}
	return r == 0 ? add_document(objects, name, text, size, why) : r;
}

static int add_from(struct migrate_objects *objects, const char *name, int fd, struct fault *why)
{
	owned(free) char *text = NULL;
	size_t size = 0;
	int r = file_slurp_from(fd, MIGRATE_BYTES_MAX, &text, &size);

	if (r < 0)
		return fault_set(why, r, "%s: %s", name, strerror(-r));
	return add_text(objects, name, text, size, why);
}

int migrate_read_file(struct migrate_objects *objects, const char *path, struct fault *why)
{
	owned(close) int fd = -1;

	if (strcmp(path, "-") == 0)
		return add_from(objects, "standard input", STDIN_FILENO, why);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? fault_set(why, -errno, "%s: %s", path, strerror(errno))
		      : add_from(objects, path, fd, why);
}

/* ---- kubectl --------------------------------------------------------------------------------- */

static int ask(struct migrate_objects *objects, const char *const *words, struct fault *why)
{
	int out[2], status = 0, r;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) != 0)
		return fault_set(why, -errno, "a pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		if (dup2(out[1], STDOUT_FILENO) < 0)
			_exit(126);
		execvp(words[0], (char *const *)words);
		_exit(127);
	}
	close(out[1]);
	r = pid < 0 ? fault_set(why, -errno, "fork: %s", strerror(errno))
		    : add_from(objects, "kubectl", out[0], why);
	close(out[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		r = fault_set(why, -EIO,
			      WIFEXITED(status) && WEXITSTATUS(status) == 127
				      ? "there is no kubectl: give the objects as files"
				      : "kubectl %s %s failed",
			      words[1], words[2]);
	return r;
}

int migrate_read_cluster(struct migrate_objects *objects, struct fault *why)
{
	const char *const plugins[] = {"kubectl", "get", "daemonsets", "-A", "-o", "json", NULL};

	return ask(objects, plugins, why);
}

int migrate_read_map(struct migrate_objects *objects, const char *name, struct fault *why)
{
	const char *space =
		migrate_text(migrate_at(objects->plugin, "metadata", "namespace", NULL));
	const char *const map[] = {"kubectl", "get", "configmap", name, "-n",
				   space,     "-o",  "json",	  NULL};

	return ask(objects, map, why);
}

int migrate_read_nodes(struct migrate_objects *objects, const char *label, struct fault *why)
{
	char template[LABEL_MAX * 2 + 160];
	const char *const nodes[] = {"kubectl", "get",	       "nodes",	     "-l",     label,
				     "-o",	"go-template", "--template", template, NULL};

	/* It goes into a template and into YAML. */
	if (!*label || strlen(label) > LABEL_MAX ||
	    label[strspn(label,
			 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")])
		return fault_set(why, -EINVAL,
				 "NODE_LABEL: '%s' is no label's name; accepted: one such as "
				 "nvidia.com/device-plugin.config",
				 words_show(label).text);
	/* Nodes are large, and there may be thousands: only the name and that label of each are
	 * read. They become one document, since far fewer documents than nodes are kept. */
	snprintf(template, sizeof(template),
		 "kind: List\nitems:\n{{range .items}}- {kind: Node, metadata: {name: "
		 "{{.metadata.name}}, labels: {%s: {{index .metadata.labels \"%s\"}}}}}\n{{end}}",
		 label, label);
	return ask(objects, nodes, why);
}

void migrate_objects_free(struct migrate_objects *objects)
{
	for (uint32_t i = 0; objects && i < objects->documents; i++)
		document_done(&objects->document[i]);
	free(objects);
}
