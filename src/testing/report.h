/*
 * What `streamlua test` prints: text, TAP or JUnit XML.
 *
 * Text and TAP are written as cases end, JUnit at the end. Owner: cases.c.
 * Thread: one.
 */
#ifndef TESTING_REPORT_H
#define TESTING_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

enum report_form { REPORT_TEXT, REPORT_TAP, REPORT_JUNIT };

struct report;

/** @param out written to. @param colour of text. */
struct report *report_new(enum report_form form, FILE *out, bool colour);
/** Accepts NULL. */
void report_free(struct report **r);
/** The cases that follow are of this test file; borrowed for the call. */
void report_file(struct report *r, const char *path);
/**
 * A case has ended.
 * @param why NULL: it passed; else lines, the first one a summary that begins
 *        with FILE:LINE. @param ms how long it took.
 */
void report_case(struct report *r, const char *name, int64_t ms,
                 const char *why);
/**
 * End of all: counts, plan, document. @return how many failed; -1: the output
 * could not be written.
 */
int64_t report_end(struct report *r);

#endif
