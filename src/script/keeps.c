/*
 * Whether a function can keep the record it is called with.
 *
 * A handle may be used again in the next call only if nobody holds it, else
 * a record that user code kept would silently read another one. Most
 * functions only take fields of their record; their code shows it: the
 * record's register is used as a table, tested or returned, and nothing
 * else. The code is read from script/dump.h;
 * whatever is not understood counts as a function that keeps it.
 * @source Lua 5.4 lopcodes.h, ldump.c.
 */
#include <string.h>

#include "script/calls_impl.h"
#include "script/dump.h"

enum {
    OPS = 83,
};

/* What an instruction reads: registers named by A, B, C (C unless bit k is
 * set); T_A, T_B: as a table that is only indexed. RET returns A. */
enum {
    NONE = 0,
    A = 1,
    B = 2,
    C = 4,
    CK = 8,
    T_A = 16,
    T_B = 32,
    RET = 64,
    BAD = 128
};

static const uint8_t reads[OPS] = {
    [0] = B,             /* MOVE */
    [10] = A,            /* SETUPVAL */
    [12] = T_B | C,      /* GETTABLE */
    [13] = T_B,          /* GETI */
    [14] = T_B,          /* GETFIELD */
    [15] = CK,           /* SETTABUP */
    [16] = T_A | B | CK, /* SETTABLE */
    [17] = T_A | CK,     /* SETI */
    [18] = T_A | CK,     /* SETFIELD */
    [20] = B | CK,       /* SELF */
    [21] = B,            /* ADDI */
    [22] = B,
    [23] = B,
    [24] = B,
    [25] = B,
    [26] = B, /* ADDK ... */
    [27] = B,
    [28] = B,
    [29] = B,
    [30] = B,
    [31] = B, /* ... BXORK */
    [32] = B,
    [33] = B, /* SHRI, SHLI */
    [34] = B | C,
    [35] = B | C,
    [36] = B | C,
    [37] = B | C, /* ADD ... */
    [38] = B | C,
    [39] = B | C,
    [40] = B | C,
    [41] = B | C,
    [42] = B | C,
    [43] = B | C,
    [44] = B | C,
    [45] = B | C, /* ... SHR */
    [46] = A | B,
    [47] = A,
    [48] = A, /* MMBIN, MMBINI, MMBINK */
    [49] = B,
    [50] = B,
    [52] = B, /* UNM, BNOT, LEN; NOT only tests */
    [53] = A, /* CONCAT: registers from A */
    [55] = A, /* TBC */
    [57] = A | B,
    [58] = A | B,
    [59] = A | B, /* EQ, LT, LE */
    [67] = B,     /* TESTSET */
    [68] = A,
    [69] = A, /* CALL, TAILCALL: registers from A */
    [70] = RET,
    [72] = RET, /* RETURN, RETURN1 */
    [73] = A,
    [74] = A,
    [75] = A,
    [76] = A,
    [77] = A,   /* loops */
    [78] = A,   /* SETLIST: registers from A */
    [79] = BAD, /* CLOSURE may hold any register */
};

static bool
instruction_keeps(uint32_t i, unsigned param)
{
    unsigned op = i & 0x7f, a = i >> 7 & 0xff, k = i >> 15 & 1;
    unsigned b = i >> 16 & 0xff, c = i >> 24, r;

    if (op >= OPS)
        return true;
    r = reads[op];
    return (r & BAD) || ((r & A) && a == param) || ((r & B) && b == param) ||
           ((r & C) && c == param) || ((r & CK) && !k && c == param) ||
           ((r & RET) && a <= param && param != 0);
}

static bool
code_keeps(struct dump *d, unsigned param)
{
    const unsigned char *at;
    uint64_t n, i;
    uint32_t code;
    unsigned params, is_vararg;

    if (dump_int(d) != 0) /* the source; stripped */
        return true;
    (void)dump_int(d);
    (void)dump_int(d);
    params = dump_byte(d);
    is_vararg = dump_byte(d);
    (void)dump_byte(d);
    n = dump_int(d);
    if (d->bad || is_vararg || n > (uint64_t)(d->end - d->pos) / sizeof code)
        return true;
    if (params <= param)
        return false; /* it does not take the record */
    for (i = 0, at = d->pos; i < n; i++, at += sizeof code) {
        memcpy(&code, at, sizeof code);
        if (instruction_keeps(code, param))
            return true;
    }
    return false;
}

bool
keeps_param(lua_State *L, unsigned param)
{
    struct dump d;
    struct buf b;
    bool keeps;

    if (lua_iscfunction(L, -1))
        return true;
    buf_init(&b);
    dump_open(L, true, &b, &d);
    keeps = d.bad || code_keeps(&d, param);
    buf_fini(&b);
    return keeps;
}
