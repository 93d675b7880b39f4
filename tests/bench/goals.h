/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, beside what was aimed at. Nothing fails for a miss. */
#pragma once

enum goal_kind {
    GOAL_NONE, /* for information */
    GOAL_AT_MOST,
    GOAL_AT_LEAST,
    GOAL_MORE,
};

struct goal {
    enum goal_kind kind;
    double limit;
};

#define AT_MOST(value)      \
    {                       \
        GOAL_AT_MOST, value \
    }
#define AT_LEAST(value)      \
    {                        \
        GOAL_AT_LEAST, value \
    }
#define MORE_THAN(value) \
    {                    \
        GOAL_MORE, value \
    }

/* The goal in words, with whether it is met: "<= 1.3 met". In a buffer of its own until the
   eighth next call. */
const char *goal_text(const struct goal *goal, double value);

/* For the table at the end. `name` is copied, `unit` is not. */
void goal_add(const char *name, const struct goal *goal, double value, const char *unit);
/* What could not be measured, and why. */
void goal_add_missing(const char *name, const char *why);
void goals_print(void);
