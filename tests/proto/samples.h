/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message of every type with every field set to a value of its own, written by hand:
 * the golden frames and the tests that need something to damage start from these. A field
 * that is added later stays out of them, so that released golden bytes never change.
 */
#ifndef KVF_TESTS_PROTO_SAMPLES_H
#define KVF_TESTS_PROTO_SAMPLES_H

#include "proto/message.h"

#define N_SAMPLES 29u

/* i < N_SAMPLES; ascending by type. */
const struct kvf_message *sample(size_t i);
const struct kvf_message *sample_of(enum kvf_message_type type);

#endif
