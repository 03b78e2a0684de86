/*
 * Whether a function can keep the record it is called with.
 *
 * A handle may be used again in the next call only if nobody holds it, else
 * a record that user code kept would silently read another one. Most
 * functions only take fields of their record; their code shows it: the
 * record's register is used as a table, tested or returned, and nothing
 * else. The code is read from lua_dump(), whose form of Lua 5.4 is fixed;
 * whatever is not understood counts as a function that keeps it.
 * @source Lua 5.4 lopcodes.h, ldump.c.
 */
#include <string.h>

#include "script/calls_impl.h"

enum {
    HEADER = 31,     /* bytes before the number of upvalues */
    BEHIND_CODE = 3, /* numparams, is_vararg, maxstacksize */
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

struct dump {
    const char *p, *end;
    bool bad;
};

static unsigned
take_byte(struct dump *d)
{
    if (d->p == d->end) {
        d->bad = true;
        return 0;
    }
    return (unsigned char)*d->p++;
}

/* Sizes and ints: 7 bits a byte, highest first, the last byte with 0x80. */
static uint64_t
take_int(struct dump *d)
{
    uint64_t v = 0;
    unsigned b;

    do {
        b = take_byte(d);
        v = v << 7 | (b & 0x7f);
    } while ((b & 0x80) == 0 && !d->bad);
    return v;
}

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
code_keeps(const char *bytes, size_t len, unsigned param)
{
    struct dump d = {bytes, bytes + len, false};
    uint64_t n, i;
    uint32_t code;
    unsigned params, is_vararg;

    if (len < HEADER + 1 || memcmp(bytes, LUA_SIGNATURE "\x54", 5) != 0 ||
        bytes[12] != sizeof code)
        return true;
    d.p += HEADER + 1;
    if (take_int(&d) != 0) /* the source; stripped */
        return true;
    (void)take_int(&d);
    (void)take_int(&d);
    params = take_byte(&d);
    is_vararg = take_byte(&d);
    (void)take_byte(&d);
    n = take_int(&d);
    if (d.bad || is_vararg || n > (uint64_t)(d.end - d.p) / sizeof code)
        return true;
    if (params <= param)
        return false; /* it does not take the record */
    for (i = 0; i < n; i++, d.p += sizeof code) {
        memcpy(&code, d.p, sizeof code);
        if (instruction_keeps(code, param))
            return true;
    }
    return false;
}

static int
write_buf(lua_State *L, const void *bytes, size_t len, void *arg)
{
    (void)L;
    buf_add(arg, bytes, len);
    return 0;
}

bool
keeps_param(lua_State *L, unsigned param)
{
    struct buf b;
    bool keeps;

    if (lua_iscfunction(L, -1))
        return true;
    buf_init(&b);
    keeps =
        lua_dump(L, write_buf, &b, 1) != 0 || code_keeps(b.data, b.len, param);
    buf_fini(&b);
    return keeps;
}
