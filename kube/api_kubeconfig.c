/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_kubeconfig.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "base/text.h"

struct reader {
	yaml_document_t document;
	struct fault *why;
};

struct field {
	const char *key;
	size_t offset;
};

static const struct field cluster_fields[] = {
	{"server", offsetof(struct api_kubeconfig, server)},
	{"certificate-authority", offsetof(struct api_kubeconfig, ca_file)},
	{"certificate-authority-data", offsetof(struct api_kubeconfig, ca_data)},
};

static const struct field user_fields[] = {
	{"client-certificate", offsetof(struct api_kubeconfig, certificate_file)},
	{"client-certificate-data", offsetof(struct api_kubeconfig, certificate_data)},
	{"client-key", offsetof(struct api_kubeconfig, key_file)},
	{"client-key-data", offsetof(struct api_kubeconfig, key_data)},
	{"token", offsetof(struct api_kubeconfig, token)},
	{"tokenFile", offsetof(struct api_kubeconfig, token_file)},
};

static const struct {
	const char *key, *advice;
} refused[] = {
	{"insecure-skip-tls-verify", "name the server's authority in certificate-authority"},
	{"tls-server-name", "use a server name that its certificate has"},
	{"proxy-url", "use a server that can be reached directly"},
	{"exec", "use a client certificate, token or tokenFile"},
	{"auth-provider", "use a client certificate, token or tokenFile"},
	{"username", "use a client certificate, token or tokenFile"},
	{"password", "use a client certificate, token or tokenFile"},
	{"as", "use the credentials of that user"},
	{"as-uid", "use the credentials of that user"},
	{"as-groups", "use the credentials of that user"},
	{"as-user-extra", "use the credentials of that user"},
};

static unsigned line_of(const yaml_node_t *node)
{
	return (unsigned)node->start_mark.line + 1;
}

/* Returns NULL if the node is no mapping, or has no such key. */
static yaml_node_t *member(struct reader *reader, yaml_node_t *mapping, const char *name)
{
	if (!mapping || mapping->type != YAML_MAPPING_NODE)
		return NULL;
	for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
	     pair < mapping->data.mapping.pairs.top; pair++) {
		yaml_node_t *key = yaml_document_get_node(&reader->document, pair->key);

		if (key && key->type == YAML_SCALAR_NODE &&
		    strcmp((char *)key->data.scalar.value, name) == 0)
			return yaml_document_get_node(&reader->document, pair->value);
	}
	return NULL;
}

/* Returns the text of a scalar that is not empty; NULL, without a sentence, if there is none. */
static const char *text_of(yaml_node_t *node)
{
	const char *text;

	if (!node || node->type != YAML_SCALAR_NODE)
		return NULL;
	text = (char *)node->data.scalar.value;
	if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	    (strcmp(text, "null") == 0 || strcmp(text, "~") == 0))
		return NULL;
	return *text && strlen(text) == node->data.scalar.length ? text : NULL;
}

static int take_field(struct reader *reader, yaml_node_t *mapping, const struct field *field,
		      struct api_kubeconfig *config)
{
	struct api_given *given = (struct api_given *)((char *)config + field->offset);
	yaml_node_t *node = member(reader, mapping, field->key);
	const char *text = text_of(node);

	if (!node)
		return 0;
	if (node->type != YAML_SCALAR_NODE)
		return fault_set(reader->why, -EINVAL, "line %u: %s is not a text", line_of(node),
				 field->key);
	if (!text)
		return 0;
	given->line = line_of(node);
	given->text = strdup(text);
	return given->text ? 0 : fault_set(reader->why, -ENOMEM, "out of memory");
}

static int check_refused(struct reader *reader, yaml_node_t *mapping)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		yaml_node_t *node = member(reader, mapping, refused[i].key);
		const char *text = text_of(node);

		if (!node || (node->type == YAML_SCALAR_NODE && !text))
			continue;
		if (text && strcasecmp(text, "false") == 0)
			continue;
		return fault_set(reader->why, -ENOTSUP, "line %u: %s is not supported: %s",
				 line_of(node), refused[i].key, refused[i].advice);
	}
	return 0;
}

/* Finds the entry with this name in the list `section`, and returns its member `content`. */
static int find_named(struct reader *reader, const char *section, const char *content,
		      const char *name, yaml_node_t **ret_node)
{
	yaml_node_t *root = yaml_document_get_root_node(&reader->document);
	yaml_node_t *list = member(reader, root, section);

	if (!list || list->type != YAML_SEQUENCE_NODE)
		return fault_set(reader->why, -EINVAL, "there is no list '%s'", section);
	for (yaml_node_item_t *item = list->data.sequence.items.start;
	     item < list->data.sequence.items.top; item++) {
		yaml_node_t *entry = yaml_document_get_node(&reader->document, *item);
		const char *called = text_of(member(reader, entry, "name"));

		if (!called || strcmp(called, name) != 0)
			continue;
		*ret_node = member(reader, entry, content);
		if (*ret_node && (*ret_node)->type == YAML_MAPPING_NODE)
			return 0;
		return fault_set(reader->why, -EINVAL, "line %u: '%s' of %s has no '%s'",
				 line_of(entry), name, section, content);
	}
	return fault_set(reader->why, -EINVAL, "line %u: %s has no '%s'", line_of(list), section,
			 name);
}

static int take_part(struct reader *reader, yaml_node_t *context, const char *content,
		     const struct field *fields, size_t count, struct api_kubeconfig *config)
{
	char section[16];
	const char *name = text_of(member(reader, context, content));
	yaml_node_t *part = NULL;
	int r;

	if (!name && strcmp(content, "user") == 0)
		return 0; /* a server may work without a user */
	if (!name)
		return fault_set(reader->why, -EINVAL, "line %u: the context names no %s",
				 line_of(context), content);
	snprintf(section, sizeof(section), "%ss", content);
	r = find_named(reader, section, content, name, &part);
	if (r < 0 || !part)
		return r;
	r = check_refused(reader, part);
	for (size_t i = 0; i < count && r == 0; i++)
		r = take_field(reader, part, &fields[i], config);
	if (r == 0 && strcmp(content, "cluster") == 0 && !config->server.text)
		r = fault_set(reader->why, -EINVAL, "line %u: the cluster '%s' has no server",
			      line_of(part), name);
	return r;
}

static int take_all(struct reader *reader, struct api_kubeconfig *config)
{
	yaml_node_t *root = yaml_document_get_root_node(&reader->document), *context = NULL;
	const char *current = text_of(member(reader, root, "current-context"));
	int r;

	if (!root || root->type != YAML_MAPPING_NODE)
		return fault_set(reader->why, -EINVAL, "it is not a kubeconfig");
	if (!current)
		return fault_set(reader->why, -EINVAL, "there is no current-context");
	r = find_named(reader, "contexts", "context", current, &context);
	if (r == 0 && context)
		r = take_part(reader, context, "cluster", cluster_fields,
			      ARRAY_SIZE(cluster_fields), config);
	if (r == 0)
		r = take_part(reader, context, "user", user_fields, ARRAY_SIZE(user_fields),
			      config);
	return r;
}

static int say_syntax(const yaml_parser_t *parser, struct fault *why)
{
	if (parser->error == YAML_MEMORY_ERROR)
		return fault_set(why, -ENOMEM, "out of memory");
	return fault_set(why, -EINVAL, "line %zu: %s", parser->problem_mark.line + 1,
			 parser->problem ? parser->problem : "this is not YAML");
}

static int count_depth(const yaml_event_t *event, int depth)
{
	switch ((int)event->type) {
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return depth + 1;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return depth - 1;
	default:
		return depth;
	}
}

/* Counts the depth in the parser's events, before a tree is built: libyaml takes
 * quadratic time for deep nesting. */
static int check_depth(const char *text, size_t size, struct fault *why)
{
	yaml_parser_t parser;
	bool over = false;
	int depth = 0, r = 0;

	if (!yaml_parser_initialize(&parser))
		return fault_set(why, -ENOMEM, "out of memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
	while (!over && r == 0) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event)) {
			r = say_syntax(&parser, why);
			break;
		}
		depth = count_depth(&event, depth);
		if (depth > API_KUBECONFIG_DEPTH)
			r = fault_set(why, -EINVAL, "line %zu: it is nested too deeply",
				      event.start_mark.line + 1);
		over = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return r;
}

int api_kubeconfig_read(const char *text, size_t size, struct api_kubeconfig *ret_config,
			struct fault *why)
{
	struct api_kubeconfig config = {0};
	struct reader reader = {.why = why};
	size_t mark = text_mark(text, size);
	yaml_parser_t parser;
	int r;

	text += mark;
	size -= mark;
	r = check_depth(text, size, why);
	if (r < 0)
		return r;
	if (!yaml_parser_initialize(&parser))
		return fault_set(why, -ENOMEM, "out of memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
	if (!yaml_parser_load(&parser, &reader.document)) {
		r = say_syntax(&parser, why);
	} else {
		r = take_all(&reader, &config);
		yaml_document_delete(&reader.document);
	}
	yaml_parser_delete(&parser);
	if (r < 0) {
		text_make_plain(why->text);
		api_kubeconfig_done(&config);
		return r;
	}
	*ret_config = config;
	return 0;
}

static void forget(struct api_given *given)
{
	if (given->text)
		explicit_bzero(given->text, strlen(given->text));
	free(given->text);
	given->text = NULL;
}

void api_kubeconfig_done(struct api_kubeconfig *config)
{
	forget(&config->server);
	for (size_t i = 0; i < ARRAY_SIZE(cluster_fields); i++)
		forget((struct api_given *)((char *)config + cluster_fields[i].offset));
	for (size_t i = 0; i < ARRAY_SIZE(user_fields); i++)
		forget((struct api_given *)((char *)config + user_fields[i].offset));
}

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int api_base64_read(const char *text, char **ret_bytes, size_t *ret_size)
{
	owned(free) char *bytes = malloc(strlen(text) / 4 * 3 + 4);
	size_t size = 0, digits = 0, padding = 0;
	uint32_t group = 0;

	if (!bytes)
		return -ENOMEM;
	for (; *text; text++) {
		int value = sextet(*text);

		if (strchr(" \t\r\n", *text))
			continue;
		if (*text == '=') {
			padding++;
			continue;
		}
		if (value < 0 || padding)
			return -EBADMSG;
		group = group << 6 | (uint32_t)value;
		if (++digits % 4 == 0) {
			bytes[size++] = (char)(group >> 16);
			bytes[size++] = (char)(group >> 8);
			bytes[size++] = (char)group;
			group = 0;
		}
	}
	if ((digits + padding) % 4 != 0 || padding > 2 || digits % 4 == 1)
		return -EBADMSG;
	if (digits % 4 == 2)
		bytes[size++] = (char)(group >> 4);
	if (digits % 4 == 3) {
		bytes[size++] = (char)(group >> 10);
		bytes[size++] = (char)(group >> 2);
	}
	bytes[size] = 0;
	*ret_bytes = take(bytes);
	*ret_size = size;
	return 0;
}
