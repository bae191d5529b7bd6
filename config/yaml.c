/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libyaml's event stream to a tree, with an explicit stack. The loader of libyaml is not
 * used: it accepts duplicate keys and builds graphs. Refusals of single nodes are
 * collected; only what makes the rest unreadable (syntax, depth, number of nodes) ends
 * the walk. libyaml counts lines and columns from 0.
 */
#include "config/yaml.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <yaml.h>

#include "base/map.h"

struct entry { /* a key of an open mapping */
    const char *key;
    struct kvf_where where;
    UT_hash_handle hh;
};

struct frame {
    struct kvf_yaml_node *node;
    struct entry *entries; /* owns the table, not the entries */
    const char *key;       /* waiting for its value; NULL: the next scalar is a key */
    struct kvf_where key_where;
    bool is_duplicate;
};

struct walk {
    struct kvf_arena *arena;
    struct kvf_problem_list *problems;
    struct kvf_yaml_node *root;
    struct frame stack[KVF_YAML_MAX_DEPTH];
    size_t depth;
    size_t n_nodes, n_documents;
    bool is_refused, is_out_of_memory, is_over;
};

static struct kvf_where where_of(const yaml_mark_t *mark)
{
    return (struct kvf_where){.line = (uint32_t)mark->line + 1,
                              .column = (uint32_t)mark->column + 1};
}

/* The node is refused, the walk goes on to find more. */
static void refuse(struct walk *walk, const yaml_mark_t *mark, const char *sentence)
{
    kvf_problem_add(walk->problems, where_of(mark), "%s", sentence);
    walk->is_refused = true;
}

/* What follows cannot be understood or is not wanted. */
static void give_up(struct walk *walk, const yaml_mark_t *mark, const char *sentence)
{
    refuse(walk, mark, sentence);
    walk->is_over = true;
}

static void *take_memory(struct walk *walk, size_t n_bytes)
{
    void *block = kvf_arena_alloc(walk->arena, n_bytes);
    if (block == NULL) {
        walk->is_out_of_memory = true;
        walk->is_over = true;
    }
    return block;
}

static const char *copy_text(struct walk *walk, const yaml_event_t *event)
{
    size_t n = event->data.scalar.length;
    char *text = take_memory(walk, n + 1);
    if (text != NULL) {
        memcpy(text, event->data.scalar.value, n);
    }
    return text;
}

static struct frame *top_of(struct walk *walk)
{
    return walk->depth > 0 ? &walk->stack[walk->depth - 1] : NULL;
}

static void close_frame(struct walk *walk)
{
    assert(walk->depth > 0);
    walk->depth--;
    HASH_CLEAR(hh, walk->stack[walk->depth].entries);
}

/* Hangs a node below the open one. A duplicate key's value is read and left out. */
static void attach(struct walk *walk, struct kvf_yaml_node *node)
{
    struct frame *frame = top_of(walk);
    if (frame == NULL) {
        walk->root = node;
        return;
    }
    node->key = frame->key;
    node->key_where = frame->key_where;
    frame->key = NULL;
    if (frame->is_duplicate) {
        frame->is_duplicate = false;
        return;
    }
    struct kvf_yaml_node *parent = frame->node;
    if (parent->last_child == NULL) {
        parent->first_child = node;
    } else {
        parent->last_child->next = node;
    }
    parent->last_child = node;
    parent->n_children++;
}

static struct kvf_yaml_node *add_node(struct walk *walk, enum kvf_yaml_kind kind,
                                      const yaml_event_t *event)
{
    if (walk->n_nodes == KVF_YAML_MAX_NODES) {
        give_up(walk, &event->start_mark, "more than 65536 values in one file");
        return NULL;
    }
    struct kvf_yaml_node *node = take_memory(walk, sizeof(*node));
    if (node == NULL) {
        return NULL;
    }
    walk->n_nodes++;
    node->kind = kind;
    node->where = where_of(&event->start_mark);
    attach(walk, node);
    return node;
}

/* The only places with uthash's macros. */
static struct entry *find_entry(const struct frame *frame, const char *key)
{
    struct entry *found = NULL;
    HASH_FIND(hh, frame->entries, key, strlen(key), found);
    return found;
}

static bool add_entry(struct frame *frame, struct entry *entry)
{
    HASH_ADD_KEYPTR(hh, frame->entries, entry->key, strlen(entry->key), entry);
    return KVF_MAP_ADDED(entry);
}

static void take_key(struct walk *walk, const yaml_event_t *event)
{
    struct frame *frame = top_of(walk);
    struct entry *entry = take_memory(walk, sizeof(*entry));
    const char *key = entry == NULL ? NULL : copy_text(walk, event);
    if (key == NULL) {
        return;
    }
    frame->key = key;
    frame->key_where = where_of(&event->start_mark);
    const struct entry *earlier = find_entry(frame, key);
    if (earlier != NULL) {
        frame->is_duplicate = true;
        kvf_problem_add(walk->problems, frame->key_where,
                        "key '%.64s' is already set on line %u", key,
                        earlier->where.line);
        return;
    }
    entry->key = key;
    entry->where = frame->key_where;
    if (!add_entry(frame, entry)) {
        walk->is_out_of_memory = true;
        walk->is_over = true;
    }
}

static bool expects_key(struct walk *walk)
{
    const struct frame *frame = top_of(walk);
    return frame != NULL && frame->node->kind == KVF_YAML_MAPPING && frame->key == NULL;
}

static void on_scalar(struct walk *walk, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    if (memchr(value, '\0', event->data.scalar.length) != NULL) {
        refuse(walk, &event->start_mark, "a NUL character is not allowed");
    }
    if (expects_key(walk)) {
        take_key(walk, event);
        return;
    }
    struct kvf_yaml_node *node = add_node(walk, KVF_YAML_SCALAR, event);
    if (node != NULL) {
        node->text = copy_text(walk, event);
        node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    }
}

static void on_container(struct walk *walk, enum kvf_yaml_kind kind,
                         const yaml_event_t *event)
{
    if (expects_key(walk)) {
        give_up(walk, &event->start_mark, "a key must be text");
        return;
    }
    if (walk->depth == KVF_YAML_MAX_DEPTH) {
        give_up(walk, &event->start_mark, "nested deeper than 16 levels");
        return;
    }
    struct kvf_yaml_node *node = add_node(walk, kind, event);
    if (node != NULL) {
        walk->stack[walk->depth++] = (struct frame){.node = node};
    }
}

static void on_alias(struct walk *walk, const yaml_event_t *event)
{
    refuse(walk, &event->start_mark, "aliases (*name) are not supported; write it out");
    if (expects_key(walk)) {
        give_up(walk, &event->start_mark, "a key must be text");
        return;
    }
    (void)add_node(walk, KVF_YAML_SCALAR, event); /* keeps keys and values in step */
}

static void on_document(struct walk *walk, const yaml_event_t *event)
{
    if (++walk->n_documents > 1) {
        give_up(walk, &event->start_mark, "a second document is not allowed");
    } else if (event->data.document_start.tag_directives.start !=
               event->data.document_start.tag_directives.end) {
        refuse(walk, &event->start_mark, "%TAG is not supported");
    }
}

static void check_properties(struct walk *walk, const yaml_event_t *event,
                             const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL) {
        refuse(walk, &event->start_mark, "anchors (&name) are not supported");
    }
    if (tag != NULL) {
        refuse(walk, &event->start_mark, "tags (!name) are not supported");
    }
}

static void on_event(struct walk *walk, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        on_document(walk, event);
        break;
    case YAML_ALIAS_EVENT:
        on_alias(walk, event);
        break;
    case YAML_SCALAR_EVENT:
        check_properties(walk, event, event->data.scalar.anchor, event->data.scalar.tag);
        on_scalar(walk, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        check_properties(walk, event, event->data.sequence_start.anchor,
                         event->data.sequence_start.tag);
        on_container(walk, KVF_YAML_SEQUENCE, event);
        break;
    case YAML_MAPPING_START_EVENT:
        check_properties(walk, event, event->data.mapping_start.anchor,
                         event->data.mapping_start.tag);
        on_container(walk, KVF_YAML_MAPPING, event);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_frame(walk);
        break;
    case YAML_STREAM_END_EVENT:
        walk->is_over = true;
        break;
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_NO_EVENT:
        break;
    }
}

/* The reader's errors have an offset in place of a mark. */
static struct kvf_where where_of_offset(const struct kvf_problem_list *problems,
                                        size_t offset)
{
    struct kvf_where where = {.line = 1, .column = 1};
    for (size_t i = 0; i < offset && i < problems->n_source_bytes; i++) {
        unsigned char c = (unsigned char)problems->source[i];
        if (c == '\n') {
            where.line++;
            where.column = 1;
        } else if ((c & 0xc0) != 0x80) {
            where.column++;
        }
    }
    return where;
}

/* A plain ${NAME} cannot stand inside of {} or []: the brace is YAML's there. */
static bool is_at_substitution(const struct kvf_problem_list *problems,
                               const struct kvf_where *where)
{
    const char *at = problems->source;
    const char *end = at + problems->n_source_bytes;
    for (uint32_t line = 1; line < where->line && at < end; at++) {
        line += *at == '\n' ? 1 : 0;
    }
    for (uint32_t column = 1; column < where->column && at < end; column++) {
        do {
            at++;
        } while (at < end && ((unsigned char)*at & 0xc0) == 0x80);
    }
    return at > problems->source && at < end && at[-1] == '$' && *at == '{';
}

static void on_error(struct walk *walk, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        walk->is_out_of_memory = true;
        return;
    }
    walk->is_refused = true;
    if (parser->error == YAML_READER_ERROR) {
        kvf_problem_add(walk->problems,
                        where_of_offset(walk->problems, parser->problem_offset),
                        "not UTF-8 text: %s", parser->problem);
        return;
    }
    struct kvf_where where = where_of(&parser->problem_mark);
    bool is_substitution = is_at_substitution(walk->problems, &where);
    kvf_problem_add(walk->problems, where, "%s%s%s%s", parser->problem,
                    parser->context != NULL ? " " : "",
                    parser->context != NULL ? parser->context : "",
                    is_substitution ? "; write \"${...}\" in quotes here" : "");
}

static void run(struct walk *walk, yaml_parser_t *parser)
{
    while (!walk->is_over) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            on_error(walk, parser);
            return;
        }
        on_event(walk, &event);
        yaml_event_delete(&event);
    }
}

enum kvf_status kvf_yaml_parse(struct kvf_arena *arena, struct kvf_problem_list *problems,
                               struct kvf_yaml_node **out)
{
    if (problems->n_source_bytes > KVF_YAML_MAX_BYTES) {
        kvf_problem_add(problems, (struct kvf_where){.line = 0},
                        "the file is larger than 1 MiB");
        return KVF_CONFIG;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        return KVF_NO_MEMORY;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)problems->source,
                                 problems->n_source_bytes);
    struct walk walk = {.arena = arena, .problems = problems};
    run(&walk, &parser);
    while (walk.depth > 0) {
        close_frame(&walk);
    }
    yaml_parser_delete(&parser);
    if (walk.is_out_of_memory) {
        return KVF_NO_MEMORY;
    }
    if (walk.is_refused) {
        return KVF_CONFIG;
    }
    *out = walk.root;
    return KVF_OK;
}

bool kvf_yaml_is_null(const struct kvf_yaml_node *node)
{
    return node->kind == KVF_YAML_SCALAR && !node->is_quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

const char *kvf_yaml_kind_name(enum kvf_yaml_kind kind)
{
    static const char *const names[] = {"a single value", "a mapping", "a list"};
    return names[kind];
}
