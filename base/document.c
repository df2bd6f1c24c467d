/* SPDX-License-Identifier: Apache-2.0 */
#include "base/document.h"

#include <string.h>
#include <yaml.h>

#include "base/text.h"
#include "base/words.h"

/* A node and its text in one piece of memory, linked to the one created before. */
struct piece {
	struct piece *before;
	struct document_node node;
	char text[];
};

struct anchor {
	char *name;
	struct document_node *node;
};

/* A map has all keys of another one that it does not have itself: "<<: *other". */
static const char merge_key[] = "<<";

struct building {
	const char *name, *text;
	size_t size;
	struct fault *why;
	yaml_parser_t parser;
	struct piece *pieces;
	uint32_t nodes, depth, anchors;
	/* The open lists and maps, the last child of each, and the key that was read. */
	struct document_node *open[DOCUMENT_DEPTH_MAX], *last[DOCUMENT_DEPTH_MAX];
	const char *key[DOCUMENT_DEPTH_MAX];
	struct document_node *merged[DOCUMENT_DEPTH_MAX]; /* the values of merge_key */
	struct anchor anchor[DOCUMENT_ANCHORS_MAX];
	struct document_node *root;
};

static int wrong(struct building *b, size_t line, const char *format, ...) printf_like(3, 4);
static int wrong(struct building *b, size_t line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(b->why->text, sizeof(b->why->text), format, arguments);
	va_end(arguments);
	fault_within(b->why, "%s:%zu", b->name, line);
	return -EINVAL;
}

static int no_memory(struct building *b)
{
	return fault_set(b->why, -ENOMEM, "%s: out of memory", b->name);
}

static size_t line_of_byte(const struct building *b, size_t offset)
{
	size_t line = 1;

	for (size_t i = 0; i < offset && i < b->size; i++)
		line += b->text[i] == '\n';
	return line;
}

/* YAML indents with spaces only; libyaml's message about a tab does not say so. */
static bool is_indented_by_tab(const struct building *b, size_t line)
{
	const char *at = b->text, *end = b->text + b->size;

	for (size_t i = 1; i < line && at; i++) {
		at = memchr(at, '\n', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	while (at && at < end && *at == ' ')
		at++;
	return at && at < end && *at == '\t';
}

static int not_yaml(struct building *b)
{
	const yaml_parser_t *parser = &b->parser;
	size_t line = parser->problem_mark.line + 1;
	const char *problem = parser->problem ? parser->problem : "it cannot be read";

	if (parser->error == YAML_MEMORY_ERROR)
		return no_memory(b);
	if (parser->error == YAML_READER_ERROR)
		return wrong(b, line_of_byte(b, parser->problem_offset),
			     "not YAML: %s; accepted: text in UTF-8", problem);
	if (is_indented_by_tab(b, line))
		return wrong(b, line, "the line begins with a tab; accepted: spaces only");
	if (parser->context && parser->context_mark.line + 1 != line)
		return wrong(b, line, "not YAML: %s, column %zu (%s from line %zu)", problem,
			     parser->problem_mark.column + 1, parser->context,
			     parser->context_mark.line + 1);
	return wrong(b, line, "not YAML: %s, column %zu", problem, parser->problem_mark.column + 1);
}

/* `text` is NULL where the node has none. */
static int make_node(struct building *b, const char *text, size_t line,
		     struct document_node **ret_node)
{
	size_t size = text ? strlen(text) + 1 : 0;
	struct piece *piece;

	if (b->nodes == DOCUMENT_NODES_MAX) {
		wrong(b, line, "more than %d keys and values", DOCUMENT_NODES_MAX);
		return -EINVAL;
	}
	piece = calloc(1, sizeof(*piece) + size);
	if (!piece) {
		no_memory(b);
		return -ENOMEM;
	}
	piece->before = b->pieces;
	b->pieces = piece;
	b->nodes++;
	piece->node.line = (uint32_t)line;
	if (text) {
		memcpy(piece->text, text, size);
		piece->node.text = piece->text;
	}
	*ret_node = &piece->node;
	return 0;
}

/* `parent` is the innermost open list or map. */
static void append(struct building *b, struct document_node *parent, struct document_node *node)
{
	uint32_t top = b->depth - 1;

	if (b->last[top])
		b->last[top]->next = node;
	else
		parent->first = node;
	b->last[top] = node;
}

/* Adds a node at the current position: the next child of the innermost open list or map. */
static int put(struct building *b, struct document_node *node)
{
	uint32_t top = b->depth - 1;
	struct document_node *parent;

	if (!b->depth) {
		b->root = node;
		return 0;
	}
	parent = b->open[top];
	if (parent->kind == DOCUMENT_MAP) {
		if (!b->key[top]) {
			if (node->kind != DOCUMENT_TEXT)
				return wrong(b, node->line,
					     "a key is a list or a map; accepted: a word");
			b->key[top] = node->plain && strcmp(node->text, merge_key) == 0
					      ? merge_key
					      : node->text;
			return 0;
		}
		node->key = b->key[top];
		b->key[top] = NULL;
		if (node->key == merge_key) {
			node->next = b->merged[top];
			b->merged[top] = node;
			return 0;
		}
	}
	append(b, parent, node);
	return 0;
}

static int note_anchor(struct building *b, const yaml_char_t *name, struct document_node *node)
{
	uint32_t at = 0;
	char *copy;

	if (!name)
		return 0;
	while (at < b->anchors && strcmp(b->anchor[at].name, (const char *)name) != 0)
		at++;
	if (at == DOCUMENT_ANCHORS_MAX)
		return wrong(b, node->line, "more than %d anchors (&)", DOCUMENT_ANCHORS_MAX);
	if (at == b->anchors) {
		copy = strdup((const char *)name);
		if (!copy)
			return no_memory(b);
		b->anchor[b->anchors++].name = copy;
	}
	b->anchor[at].node = node;
	return 0;
}

/* Accepts only tags that state the default interpretation. */
static int check_tag(struct building *b, const yaml_char_t *tag, size_t line)
{
	static const char *const known[] = {"str", "int", "bool", "float", "null", "seq", "map"};
	static const char prefix[] = "tag:yaml.org,2002:";
	const char *text = (const char *)tag;

	if (!text || strcmp(text, "!") == 0)
		return 0;
	if (strncmp(text, prefix, sizeof(prefix) - 1) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			if (strcmp(text + sizeof(prefix) - 1, known[i]) == 0)
				return 0;
	return wrong(b, line, "the tag '%s' is not known; accepted: values without tags",
		     words_show(text).text);
}

static int take_scalar(struct building *b, const yaml_event_t *event, size_t line)
{
	const char *text = (const char *)event->data.scalar.value;
	struct document_node *node;
	int r = check_tag(b, event->data.scalar.tag, line);

	if (r == 0 && strlen(text) != event->data.scalar.length)
		r = wrong(b, line, "a string contains a zero byte");
	if (r == 0)
		r = make_node(b, text, line, &node);
	if (r != 0)
		return r;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
		      event->data.scalar.plain_implicit;
	r = note_anchor(b, event->data.scalar.anchor, node);
	return r < 0 ? r : put(b, node);
}

static int take_start(struct building *b, enum document_kind kind, const yaml_char_t *tag,
		      const yaml_char_t *anchor, size_t line)
{
	struct document_node *node;
	int r = check_tag(b, tag, line);

	if (r == 0 && b->depth == DOCUMENT_DEPTH_MAX)
		r = wrong(b, line, "lists and maps are nested more than %d deep",
			  DOCUMENT_DEPTH_MAX);
	if (r == 0)
		r = make_node(b, NULL, line, &node);
	if (r != 0)
		return r;
	node->kind = kind;
	r = note_anchor(b, anchor, node);
	if (r == 0)
		r = put(b, node);
	if (r < 0)
		return r;
	b->open[b->depth] = node;
	b->last[b->depth] = NULL;
	b->key[b->depth] = NULL;
	b->merged[b->depth] = NULL;
	b->depth++;
	return 0;
}

static int take_alias(struct building *b, const char *name, size_t line)
{
	struct document_node *node, *target = NULL;
	int r;

	for (uint32_t i = 0; i < b->anchors; i++)
		if (strcmp(b->anchor[i].name, name) == 0)
			target = b->anchor[i].node;
	if (!target)
		return wrong(b, line, "no anchor '&%s' comes before this", words_show(name).text);
	for (uint32_t i = 0; i < b->depth; i++)
		if (b->open[i] == target)
			return wrong(b, line, "the alias '*%s' is inside its own anchor",
				     words_show(name).text);
	r = make_node(b, NULL, line, &node);
	if (r != 0)
		return r;
	node->kind = target->kind;
	node->plain = target->plain;
	node->text = target->text;
	node->first = target->first;
	return put(b, node);
}

/* ---- merge keys ------------------------------------------------------------------------------ */

static bool has_key(const struct document_node *map, const char *key)
{
	for (const struct document_node *one = map->first; one; one = one->next)
		if (strcmp(one->key, key) == 0)
			return true;
	return false;
}

static int merge(struct building *b, struct document_node *map, const struct document_node *other)
{
	int r = 0;

	if (other->kind != DOCUMENT_MAP)
		return wrong(b, other->line,
			     "'<<' has something else than a map; accepted: an alias (*) of a map, "
			     "or a list of such");
	for (const struct document_node *one = other->first; one && r == 0; one = one->next) {
		struct document_node *node;

		if (has_key(map, one->key))
			continue;
		r = make_node(b, one->text, one->line, &node);
		if (r < 0)
			break;
		node->kind = one->kind;
		node->plain = one->plain;
		node->key = one->key;
		node->first = one->first;
		append(b, map, node);
	}
	return r;
}

/* The map is complete: now it is known which keys are its own. Of a list the first one counts. */
static int merge_all(struct building *b)
{
	struct document_node *map = b->open[b->depth - 1];
	int r = 0;

	for (const struct document_node *value = b->merged[b->depth - 1]; value && r == 0;
	     value = value->next) {
		if (value->kind != DOCUMENT_LIST)
			r = merge(b, map, value);
		for (const struct document_node *one = value->kind == DOCUMENT_LIST ? value->first
										    : NULL;
		     one && r == 0; one = one->next)
			r = merge(b, map, one);
	}
	b->depth--;
	return r;
}

static int take_event(struct building *b, const yaml_event_t *event)
{
	size_t line = event->start_mark.line + 1;

	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return take_scalar(b, event, line);
	case YAML_ALIAS_EVENT:
		return take_alias(b, (const char *)event->data.alias.anchor, line);
	case YAML_SEQUENCE_START_EVENT:
		return take_start(b, DOCUMENT_LIST, event->data.sequence_start.tag,
				  event->data.sequence_start.anchor, line);
	case YAML_MAPPING_START_EVENT:
		return take_start(b, DOCUMENT_MAP, event->data.mapping_start.tag,
				  event->data.mapping_start.anchor, line);
	case YAML_SEQUENCE_END_EVENT:
		b->depth--;
		return 0;
	case YAML_MAPPING_END_EVENT:
		return merge_all(b);
	case YAML_DOCUMENT_START_EVENT:
		if (b->root)
			return wrong(b, line, "a second document begins; accepted: one");
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
	return 0;
}

static int take_events(struct building *b)
{
	for (;;) {
		yaml_event_t event;
		bool ended;
		int r;

		if (!yaml_parser_parse(&b->parser, &event))
			return not_yaml(b);
		ended = event.type == YAML_STREAM_END_EVENT;
		r = take_event(b, &event);
		yaml_event_delete(&event);
		if (r < 0 || ended)
			return r;
	}
}

static void free_pieces(struct piece *piece)
{
	while (piece) {
		struct piece *before = piece->before;

		free(piece);
		piece = before;
	}
}

int document_parse(const char *name, const char *text, size_t size, struct document *ret_document,
		   struct fault *why)
{
	struct building b = {.name = name, .text = text, .size = size, .why = why};
	const char *given = text, *zero;
	int r;

	b.text = text += text_mark(text, size);
	b.size = size -= (size_t)(text - given);
	zero = size ? memchr(text, 0, size) : NULL;
	if (zero)
		return wrong(&b, line_of_byte(&b, (size_t)(zero - text)),
			     "a zero byte; accepted: text in UTF-8");
	if (!yaml_parser_initialize(&b.parser))
		return no_memory(&b);
	/* The encoding is not guessed from the first bytes, which could indicate UTF-16. */
	yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, size);
	r = take_events(&b);
	yaml_parser_delete(&b.parser);
	for (uint32_t i = 0; i < b.anchors; i++)
		free(b.anchor[i].name);
	if (r < 0) {
		free_pieces(b.pieces);
		return r;
	}
	*ret_document = (struct document){.root = b.root, .memory = b.pieces};
	return 0;
}

void document_done(struct document *document)
{
	free_pieces(document->memory);
	*document = (struct document){0};
}

bool document_is_null(const struct document_node *node)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	if (node->kind != DOCUMENT_TEXT || !node->plain)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(node->text, words[i]) == 0)
			return true;
	return false;
}
