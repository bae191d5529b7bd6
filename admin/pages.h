/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of the route table. A page is called once per exchange, after every check;
 * it reads the query, asks the daemon through ops and writes the answer. It must be
 * quick: bounded work, no blocking; long answers stream, long waits suspend. Loop thread.
 */
#ifndef KVF_ADMIN_PAGES_H
#define KVF_ADMIN_PAGES_H

#include "admin/http.h"

/* health.c */
void kvf_page_livez(struct kvf_http_request *request);
void kvf_page_readyz(struct kvf_http_request *request);
void kvf_page_startupz(struct kvf_http_request *request);

/* pages.c */
void kvf_page_index(struct kvf_http_request *request);
void kvf_page_metrics(struct kvf_http_request *request);
void kvf_page_version(struct kvf_http_request *request);
void kvf_page_status(struct kvf_http_request *request);

/* requests.c */
void kvf_page_requests(struct kvf_http_request *request);
void kvf_page_request(struct kvf_http_request *request);
void kvf_page_cancel(struct kvf_http_request *request);

/* timings.c */
void kvf_page_timings(struct kvf_http_request *request);

#define KVF_TEXT_TYPE "text/plain; charset=utf-8"

#endif
