/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two listeners, and the order of checks that stands between a request and its page.
 * Nothing is decided by falling through: 404, 405 and 501 come from the route table, 4xx
 * of the guard before any page runs. Owns both servers, its guards and the list of host
 * names; everything else is borrowed from the daemon. Loop thread.
 */
#include "admin/admin.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

#include "admin/guard.h"
#include "admin/http.h"
#include "admin/listen.h"
#include "admin/problem.h"
#include "admin/query.h"
#include "admin/route.h"

#define ALLOW_MAX 64 /* bytes of an Allow header */

static const struct kvf_log_ctx context = {.comp = "http"};

struct kvf_admin {
    struct kvf_guard open_guard;   /* of the observe side: no token */
    struct kvf_guard closed_guard; /* of the admin side */
    char **allow_hosts;            /* owns, and the names */
    size_t n_allow_hosts;
    struct kvf_http_server *observe, *admin; /* owns */
    uint16_t observe_port, admin_port;
    char *socket_path; /* owns; NULL unless the admin side made a socket file */
};

/* ---- from request to page */

/* detail by pointer: the check that sets it is evaluated in the same call. */
static bool refuse(struct kvf_http_request *request, enum kvf_problem problem,
                   const char *const *detail)
{
    if (problem != KVF_PROBLEM_NONE) {
        kvf_problem_reply(request, problem, "%s", *detail);
    }
    return problem != KVF_PROBLEM_NONE;
}

static bool is_refused(struct kvf_http_request *request)
{
    const struct kvf_http_headers *headers = &request->headers;
    const char *detail = "";
    return refuse(request, kvf_guard_path(request->path, &detail), &detail) ||
           refuse(request, kvf_guard_host(request->guard, headers, &detail), &detail) ||
           refuse(request, kvf_guard_origin(headers, &detail), &detail);
}

static void answer_no_route(struct kvf_http_request *request,
                            const struct kvf_route_match *match)
{
    char allow[ALLOW_MAX];
    if (match->template == NULL) {
        kvf_problem_reply(request, KVF_PROBLEM_PATH_NOT_FOUND,
                          match->is_elsewhere ? "'%s' is on the other listener"
                                              : "no '%s' here; / lists what there is",
                          request->path);
        return;
    }
    kvf_http_methods_format(match->methods, allow, sizeof(allow));
    kvf_problem_reply(request, KVF_PROBLEM_METHOD_NOT_ALLOWED, "%s takes %s",
                      match->template, allow);
    kvf_reply_header(request, "Allow", "%s", allow);
}

static void answer_options(struct kvf_http_request *request,
                           const struct kvf_route_match *match)
{
    char allow[ALLOW_MAX];
    kvf_http_methods_format(match->methods, allow, sizeof(allow));
    kvf_reply_begin(request, 204, NULL);
    kvf_reply_header(request, "Allow", "%s", allow);
}

/* What only pages of the admin side ask for. */
static bool is_denied(struct kvf_http_request *request)
{
    const struct kvf_http_headers *headers = &request->headers;
    const char *detail = "";
    if (request->route->sides == KVF_HTTP_ADMIN &&
        refuse(request, kvf_guard_token(request->guard, headers, &detail), &detail)) {
        return true;
    }
    return !kvf_http_method_is_safe(request->route->method) &&
           refuse(request, kvf_guard_mutation(headers, &detail), &detail);
}

static void serve(struct kvf_http_request *request)
{
    enum kvf_http_method method;
    struct kvf_route_match match;
    if (is_refused(request)) {
        return;
    }
    if (!kvf_http_method_parse(request->method_text, &method)) {
        kvf_problem_reply(
            request, KVF_PROBLEM_NOT_IMPLEMENTED,
            "this server knows GET, HEAD, OPTIONS, DELETE, POST, PUT, PATCH");
        return;
    }
    kvf_route_find(request->side, method, request->path, &match);
    request->route = match.route;
    request->template = match.template;
    request->parameter = match.parameter;
    if (match.template != NULL && method == KVF_HTTP_OPTIONS) {
        answer_options(request, &match);
    } else if (match.route == NULL) {
        answer_no_route(request, &match);
    } else if (!is_denied(request) && kvf_query_check_keys(request)) {
        match.route->page(request);
    }
}

/* ---- life */

static enum kvf_status copy_hosts(struct kvf_admin *admin,
                                  const struct kvf_admin_config *config)
{
    admin->allow_hosts = kvf_alloc_array(config->n_allow_hosts + 1, sizeof(char *));
    if (admin->allow_hosts == NULL) {
        return KVF_NO_MEMORY;
    }
    for (size_t i = 0; i < config->n_allow_hosts; i++) {
        admin->allow_hosts[i] = kvf_strdup(config->allow_hosts[i]);
        if (admin->allow_hosts[i] == NULL) {
            return KVF_NO_MEMORY;
        }
        admin->n_allow_hosts = i + 1;
    }
    return KVF_OK;
}

static enum kvf_status init_guards(struct kvf_admin *admin,
                                   const struct kvf_admin_config *config)
{
    bool has_token = config->token_file != NULL && config->token_file[0] != '\0';
    enum kvf_status status = copy_hosts(admin, config);
    if (status != KVF_OK) {
        return status;
    }
    admin->open_guard.allow_hosts = (const char *const *)admin->allow_hosts;
    admin->open_guard.n_allow_hosts = admin->n_allow_hosts;
    admin->closed_guard = admin->open_guard;
    if (has_token) {
        return kvf_guard_load_token(&admin->closed_guard, config->token_file);
    }
    if (!kvf_address_is_loopback(config->admin) && !config->is_insecure) {
        kvf_log_error(&context,
                      "admin listens beyond loopback without a token: set "
                      "admin.token_file, listen on a unix socket or on 127.0.0.1, "
                      "or say admin.insecure: true");
        return KVF_CONFIG;
    }
    return KVF_OK;
}

static enum kvf_status open_side(const struct kvf_admin_config *config,
                                 enum kvf_http_side side,
                                 const struct kvf_address *address,
                                 const struct kvf_guard *guard, uint16_t *out_port,
                                 struct kvf_http_server **out)
{
    struct kvf_http_config http = {.loop = config->loop,
                                   .fd = -1,
                                   .side = side,
                                   .guard = guard,
                                   .ops = config->ops,
                                   .ops_owner = config->owner,
                                   .serve = serve};
    struct kvf_address bound = *address;
    char text[KVF_ADDRESS_MAX + sizeof("unix:")];
    enum kvf_status status = kvf_listen_open(address, &http.fd, out_port);
    if (status != KVF_OK) {
        return status;
    }
    status = kvf_http_server_open(&http, out);
    if (status == KVF_OK) {
        bound.port = bound.port_last = *out_port;
        kvf_address_format(&bound, text, sizeof(text));
        kvf_log_info(&context, "%s listens on %s", kvf_http_side_name(side), text);
    }
    return status;
}

static enum kvf_status open_admin_side(struct kvf_admin *admin,
                                       const struct kvf_admin_config *config)
{
    if (config->admin->kind == KVF_ADDRESS_UNIX) {
        admin->socket_path = kvf_strdup(config->admin->host);
        if (admin->socket_path == NULL) {
            return KVF_NO_MEMORY;
        }
    }
    return open_side(config, KVF_HTTP_ADMIN, config->admin, &admin->closed_guard,
                     &admin->admin_port, &admin->admin);
}

enum kvf_status kvf_admin_open(const struct kvf_admin_config *config,
                               struct kvf_admin **out)
{
    struct kvf_admin *admin = kvf_alloc(sizeof(*admin));
    if (admin == NULL) {
        return KVF_NO_MEMORY;
    }
    enum kvf_status status = init_guards(admin, config);
    if (status == KVF_OK) {
        status = open_side(config, KVF_HTTP_OBSERVE, config->observe, &admin->open_guard,
                           &admin->observe_port, &admin->observe);
    }
    if (status == KVF_OK) {
        status = open_admin_side(admin, config);
    }
    if (status != KVF_OK) {
        kvf_admin_close(admin);
        return status;
    }
    *out = admin;
    return KVF_OK;
}

void kvf_admin_close(struct kvf_admin *admin)
{
    if (admin == NULL) {
        return;
    }
    kvf_http_server_close(admin->observe);
    if (admin->admin != NULL && admin->socket_path != NULL) {
        (void)unlink(admin->socket_path); /* what stays is stale and will be replaced */
    }
    kvf_http_server_close(admin->admin);
    for (size_t i = 0; i < admin->n_allow_hosts; i++) {
        kvf_free(admin->allow_hosts[i]);
    }
    kvf_free(admin->allow_hosts);
    kvf_free(admin->socket_path);
    explicit_bzero(admin->closed_guard.token, sizeof(admin->closed_guard.token));
    kvf_free(admin);
}

uint16_t kvf_admin_observe_port(const struct kvf_admin *admin)
{
    return admin->observe_port;
}

uint16_t kvf_admin_admin_port(const struct kvf_admin *admin)
{
    return admin->admin_port;
}
