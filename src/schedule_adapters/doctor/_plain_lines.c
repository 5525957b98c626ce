/* A block of lines read at the speed of memory: the fastest way to the exact answer.
 *
 * A line is *plain* if it is one event of the expected seq, with its members in the form and
 * order that every known writer uses, and with JSON as its data. Any other line is named, to be
 * read again by `stores/log_format.py` and `schedule_core/decoder.py`, which decide. So there is
 * one rule here: never call plain what they refuse, and give the same values.
 *
 * The first pass (`scan_lines`) makes no object and holds no lock of the interpreter.
 *
 * No function looks beyond the end of its text, though few ask where that is: the text ends in a
 * newline, and each of them stops at the first byte that it does not expect. None expects a
 * newline but the one that ends a line.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef const unsigned char *Text;

enum {
    MAX_DEPTH = 60,    /* of nested brackets, one bit each; the exact readers take 500 */
    MAX_DIGITS = 300,  /* of a number; `int()` refuses none so short */
    SAFE_DIGITS = 15,  /* of a seq or a time: below 2^53 whatever they are */
};

/* ---- JSON: each function takes a place, and gives the place behind what it read, or NULL. ---- */

/* Read UTF-8 of more than one byte. */
static Text skip_character(Text at) {
    unsigned char first = at[0];
    if (first < 0xc2) return NULL;
    if ((at[1] & 0xc0) != 0x80) return NULL;
    if (first < 0xe0) return at + 2;
    if ((at[2] & 0xc0) != 0x80) return NULL;
    if (first < 0xf0) {
        if (first == 0xe0 && at[1] < 0xa0) return NULL;   /* overlong */
        if (first == 0xed && at[1] > 0x9f) return NULL;   /* a surrogate */
        return at + 3;
    }
    if ((at[3] & 0xc0) != 0x80 || first > 0xf4) return NULL;
    if (first == 0xf0 && at[1] < 0x90) return NULL;       /* overlong */
    if (first == 0xf4 && at[1] > 0x8f) return NULL;       /* beyond U+10FFFF */
    return at + 4;
}

static int is_hex(unsigned char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static Text skip_escape(Text at) {
    switch (at[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return at + 2;
    case 'u':
        for (int i = 2; i < 6; i++) {
            if (!is_hex(at[i])) return NULL;
        }
        return at + 6;
    default:
        return NULL;
    }
}

/* Go on to where eight bytes or sixteen, looked at at once, hold something to look at. */
#ifdef __SSE2__
static Text skip_ordinary(Text at, Text end) {
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(0x20);
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* signed: bytes from 0x80 on are negative, so they are below a space, too */
        __m128i odd = _mm_or_si128(
            _mm_cmplt_epi8(bytes, space),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));
        int mask = _mm_movemask_epi8(odd);
        if (mask) return at + __builtin_ctz((unsigned)mask);
        at += 16;
    }
    return at;
}
#else
/* Sets the top bit of each byte that ends a run of plain ASCII in a string, and perhaps others. */
static uint64_t odd_bytes(Text at) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t word, quote, slash;
    memcpy(&word, at, 8);
    quote = word ^ (ones * '"');
    slash = word ^ (ones * '\\');
    return (word | (word - ones * 0x20) | (quote - ones) | (slash - ones)) & tops;
}

static Text skip_ordinary(Text at, Text end) {
    while (end - at >= 8 && !odd_bytes(at)) at += 8;
    return at;
}
#endif

/* Read a string from behind its opening quote. */
static Text skip_string(Text at, Text end) {
    for (;;) {
        at = skip_ordinary(at, end);
        unsigned char c = *at;
        if (c == '"') return at + 1;
        if (c == '\\') {
            at = skip_escape(at);
        } else if (c >= 0x80) {
            at = skip_character(at);
        } else if (c >= 0x20) {
            at++;
        } else {
            return NULL;
        }
        if (!at) return NULL;
    }
}

static Text skip_digits(Text at) {
    while (*at >= '0' && *at <= '9') at++;
    return at;
}

static Text skip_number(Text at) {
    Text start = at, digits;
    if (*at == '-') at++;
    digits = at;
    at = skip_digits(at);
    if (at == digits || (*digits == '0' && at - digits > 1)) return NULL;
    if (*at == '.') {
        digits = ++at;
        at = skip_digits(at);
        if (at == digits) return NULL;
    }
    if ((*at | 0x20) == 'e') {
        at++;
        if (*at == '+' || *at == '-') at++;
        digits = at;
        at = skip_digits(at);
        if (at == digits) return NULL;
    }
    return at - start > MAX_DIGITS ? NULL : at;
}

static Text skip_space(Text at) {
    while (*at == ' ' || *at == '\t' || *at == '\r') at++;
    return at;
}

static Text skip_word(Text at, Text end, const char *word, size_t size) {
    return (size_t)(end - at) >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static Text skip_scalar(Text at, Text end) {
    switch (*at) {
    case '"': return skip_string(at + 1, end);
    case 't': return skip_word(at, end, "true", 4);
    case 'f': return skip_word(at, end, "false", 5);
    case 'n': return skip_word(at, end, "null", 4);
    default: return skip_number(at);
    }
}

static Text skip_key(Text at, Text end) {
    if (*at != '"') return NULL;
    at = skip_string(at + 1, end);
    if (!at) return NULL;
    at = skip_space(at);
    return *at == ':' ? skip_space(at + 1) : NULL;
}

/* Read any value. `objects` has one bit for each open bracket: whether it is an object's. */
static Text skip_value(Text at, Text end) {
    uint64_t objects = 0;
    int depth = 0;
    at = skip_space(at);
    for (;;) {
        if (*at == '{' || *at == '[') {
            int object = *at == '{';
            Text inside = skip_space(at + 1);
            if (*inside != (object ? '}' : ']')) {
                if (depth++ == MAX_DEPTH) return NULL;
                objects = objects << 1 | (uint64_t)object;
                at = object ? skip_key(inside, end) : inside;
                if (!at) return NULL;
                continue;
            }
            at = inside + 1;
        } else {
            at = skip_scalar(at, end);
            if (!at) return NULL;
        }
        for (;;) {  /* behind a value */
            if (depth == 0) return at;
            at = skip_space(at);
            if (*at == ',') {
                at = skip_space(at + 1);
                if (objects & 1) {
                    at = skip_key(at, end);
                    if (!at) return NULL;
                }
                break;
            }
            if (*at != (objects & 1 ? '}' : ']')) return NULL;
            at++;
            depth--;
            objects >>= 1;
        }
    }
}

/* ---- A change: read once its JSON was found good, so nothing here asks that again. ---- */

typedef struct {
    Text start, end;  /* NULL: there is none */
    Text escape;      /* the last one; NULL: there is none */
} Span;

typedef struct {
    Span operation, outer_id, id, kind, prompt, due_text;
    int64_t version, delay, due;  /* version and delay are 0 where there is none */
    int has_schedule;
} Change;

static Text behind_escape(Text at) { return at + (at[1] == 'u' ? 6 : 2); }

static int is(Span span, const char *word) {
    size_t size = strlen(word);
    return span.start && (size_t)(span.end - span.start) == size &&
           memcmp(span.start, word, size) == 0;
}

static Text read_integer(Text at, int64_t *value) {
    int negative = *at == '-';
    Text digits = at + negative;
    int64_t sum = 0;
    at = digits;
    while (*at >= '0' && *at <= '9' && at - digits <= SAFE_DIGITS) sum = sum * 10 + (*at++ - '0');
    if (at == digits || at - digits > SAFE_DIGITS) return NULL;
    if (*digits == '0' && (at - digits > 1 || negative)) return NULL;
    *value = negative ? -sum : sum;
    return at;
}

static Text take_string(Text at, Span *span) {
    if (*at != '"' || span->start) return NULL;  /* a repeated member is not plain */
    span->start = ++at;
    while (*at != '"') {
        if (*at == '\\') {
            span->escape = at;
            at = behind_escape(at);
        } else {
            at++;
        }
    }
    span->end = at;
    return at + 1;
}

/* Take a positive integer of a member that was not there before. */
static Text take_count(Text at, int64_t *value) {
    if (*value) return NULL;
    at = read_integer(at, value);
    return at && (*at == ',' || *at == '}') && *value > 0 ? at : NULL;
}

static Text take_schedule(Text at, Change *change);

static Text take_of_change(Text at, Span key, Change *change) {
    if (is(key, "version")) return take_count(at, &change->version);
    if (is(key, "operation")) return take_string(at, &change->operation);
    if (is(key, "id")) return take_string(at, &change->outer_id);
    if (is(key, "schedule") && !change->has_schedule) return take_schedule(at, change);
    return NULL;
}

static Text take_of_schedule(Text at, Span key, Change *change) {
    if (is(key, "id")) return take_string(at, &change->id);
    if (is(key, "kind")) return take_string(at, &change->kind);
    if (is(key, "prompt")) return take_string(at, &change->prompt);
    if (is(key, "afterSeconds")) return take_count(at, &change->delay);
    if (is(key, "scheduledAt")) return take_string(at, &change->due_text);
    return NULL;
}

/* Take an object without white space, in which every member is known and none is repeated. */
static Text take_object(Text at, Text (*take)(Text, Span, Change *), Change *change) {
    if (*at++ != '{') return NULL;
    for (;;) {
        Span key = {0};
        at = take_string(at, &key);
        if (!at || *at != ':') return NULL;
        at = take(at + 1, key, change);
        if (!at) return NULL;
        if (*at == '}') return at + 1;
        if (*at++ != ',') return NULL;
    }
}

static Text take_schedule(Text at, Change *change) {
    change->has_schedule = 1;
    return take_object(at, take_of_schedule, change);
}

/* `String.prototype.trim`: ECMA-262 WhiteSpace and LineTerminator, of which no control
 * character can stand in a JSON string without an escape. */
static int is_white(const unsigned char *at) {
    if (at[0] == ' ') return 1;
    if (at[0] == 0xc2) return at[1] == 0xa0;
    if (at[0] == 0xe1) return at[1] == 0x9a && at[2] == 0x80;
    if (at[0] == 0xe2 && at[1] == 0x80)
        return at[2] <= 0x8a || at[2] == 0xa8 || at[2] == 0xa9 || at[2] == 0xaf;
    if (at[0] == 0xe2) return at[1] == 0x81 && at[2] == 0x9f;
    if (at[0] == 0xe3) return at[1] == 0x80 && at[2] == 0x80;
    return at[0] == 0xef && at[1] == 0xbb && at[2] == 0xbf;
}

/* What `\u` stands for is not looked into, so it may be white. */
static int may_be_white(Text escape) { return strchr("\"\\/b", escape[1]) == NULL; }

static int is_trimmed(Span span) {
    Text last = span.end;
    if (!span.start || span.start == span.end) return 0;
    if (*span.start == '\\' && may_be_white(span.start)) return 0;
    if (span.escape && behind_escape(span.escape) == span.end) return !may_be_white(span.escape);
    do last--; while ((*last & 0xc0) == 0x80);
    return !is_white(span.start) && !is_white(last);
}

static int two_digits(Text at) {
    if (at[0] < '0' || at[0] > '9' || at[1] < '0' || at[1] > '9') return -1;
    return 10 * (at[0] - '0') + at[1] - '0';
}

/* Days since 1970-01-01 of a day of the proleptic Gregorian calendar, year 1 to 9999. */
static int64_t day_number(int year, int month, int day) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int earlier = year - 1;
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return earlier * 365LL + earlier / 4 - earlier / 100 + earlier / 400 + before[month - 1] +
           (leap && month > 2) + day - 1 - 719162;
}

/* Read the canonical instant YYYY-MM-DDTHH:MM:SS.mmmZ. */
static int read_instant(Span span, int64_t *instant) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    Text at = span.start;
    if (!at || span.end - at != 24) return 0;
    if (at[4] != '-' || at[7] != '-' || at[10] != 'T' || at[13] != ':' || at[16] != ':' ||
        at[19] != '.' || at[23] != 'Z') return 0;
    int century = two_digits(at), of_century = two_digits(at + 2);
    int month = two_digits(at + 5), day = two_digits(at + 8);
    int hour = two_digits(at + 11), minute = two_digits(at + 14), second = two_digits(at + 17);
    int hundredths = two_digits(at + 20), last = at[22] - '0';
    if (century < 0 || of_century < 0 || month < 1 || month > 12 || day < 1 || hour < 0 ||
        hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || hundredths < 0 ||
        last < 0 || last > 9) return 0;
    int year = 100 * century + of_century;
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year < 1 || day > lengths[month - 1] + (leap && month == 2)) return 0;
    int64_t seconds = 60 * (60 * (24 * day_number(year, month, day) + hour) + minute) + second;
    *instant = 1000 * seconds + 10 * hundredths + last;
    return 1;
}

static int read_change(Text at, Text end, Change *change) {
    memset(change, 0, sizeof *change);
    if (take_object(at, take_of_change, change) != end || change->version != 1) return 0;
    if (!change->has_schedule) {
        return is_trimmed(change->outer_id) &&
               (is(change->operation, "delete") || is(change->operation, "dispatch"));
    }
    return !change->outer_id.start && is(change->operation, "create") &&
           is(change->kind, change->delay ? "after" : "at") && is_trimmed(change->id) &&
           is_trimmed(change->prompt) && read_instant(change->due_text, &change->due);
}

/* ---- Lines. ---- */

typedef struct {
    Text data, data_end;
    int64_t time;
    Py_ssize_t index;
    int is_change;
} Found;  /* a line that matters */

typedef struct {
    Found *found;
    Py_ssize_t size, room, lines;
} Scan;

#define EXPECT(word) do { \
        at = skip_word(at, end, word, sizeof(word) - 1); \
        if (!at) return NULL; \
    } while (0)

/* Read printable ASCII without escapes, up to its closing quote. */
static Text take_type(Text at, Span *type) {
    type->start = at;
    while (*at != '"') {
        if (*at < 0x20 || *at >= 0x7f || *at == '\\') return NULL;
        at++;
    }
    type->end = at;
    return at + 1;
}

/* Read one line with its newline, if it is plain and has that seq. */
static Text scan_line(Text at, Text end, int64_t seq, Found *found, int *matters) {
    Span type = {0};
    int64_t number;
    EXPECT("{\"type\":\"");
    at = take_type(at, &type);
    if (!at) return NULL;
    EXPECT(",\"seq\":");
    at = read_integer(at, &number);
    if (!at || number != seq) return NULL;
    EXPECT(",\"time\":");
    at = read_integer(at, &found->time);
    if (!at) return NULL;
    EXPECT(",\"data\":");
    found->data = at;
    at = skip_value(at, end);
    if (!at) return NULL;
    found->data_end = at;
    if (*at == ',') EXPECT(",\"ignorable\":true");
    if (at[0] != '}' || at[1] != '\n') return NULL;
    found->is_change = is(type, "schedule/change");
    *matters = found->is_change || is(type, "input/queued") || is(type, "log/checkpoint");
    return at + 2;
}

static int keep(Scan *scan, const Found *found) {
    if (scan->size == scan->room) {
        Py_ssize_t room = scan->room ? 2 * scan->room : 64;
        Found *grown = realloc(scan->found, (size_t)room * sizeof(Found));
        if (!grown) return 0;
        scan->found = grown;
        scan->room = room;
    }
    scan->found[scan->size++] = *found;
    return 1;
}

/* Read all lines, the first of which has the seq `first`; fails only without memory. */
static int scan_lines(Text at, Text end, int64_t first, Scan *scan) {
    while (at < end) {
        Found found = {0};
        int matters = 0;
        Text next = scan_line(at, end, first + scan->lines, &found, &matters);
        if (!next) {
            found.is_change = 0;
            matters = 1;
            next = (Text)memchr(at, '\n', (size_t)(end - at)) + 1;
        }
        found.index = scan->lines++;
        if (matters && !keep(scan, &found)) return 0;
        at = next;
    }
    return 1;
}

/* ---- What the interpreter gets; without its lock nothing below may run. ---- */

static PyObject *create_name, *delete_name, *dispatch_name, *empty;
static PyObject *scanstring;  /* of the json package: (text, start) -> (string, end) */

static PyObject *text_of(Span span) {
    Py_ssize_t size = span.end - span.start;
    if (!span.escape) return PyUnicode_DecodeUTF8((const char *)span.start, size, NULL);
    PyObject *text = PyUnicode_DecodeUTF8((const char *)span.start, size + 1, NULL);  /* and '"' */
    if (!text) return NULL;
    PyObject *pair = PyObject_CallFunction(scanstring, "Oi", text, 0);
    Py_DECREF(text);
    if (!pair) return NULL;
    PyObject *string = Py_XNewRef(PyTuple_GetItem(pair, 0));
    Py_DECREF(pair);
    return string;
}

/* A `ChangeRow` of `decoders.py`. */
static PyObject *row_of(const Found *found, int64_t seq, const Change *change) {
    PyObject *items[7] = {
        PyLong_FromLongLong(seq),
        PyLong_FromLongLong(found->time),
    };
    if (change->has_schedule) {
        items[2] = Py_NewRef(create_name);
        items[3] = text_of(change->id);
        items[4] = PyLong_FromLongLong(change->due);
        items[5] = change->delay ? PyLong_FromLongLong(change->delay) : Py_NewRef(Py_None);
        items[6] = text_of(change->prompt);
    } else {
        items[2] = Py_NewRef(change->operation.start[1] == 'e' ? delete_name : dispatch_name);
        items[3] = text_of(change->outer_id);
        items[4] = PyLong_FromLong(0);
        items[5] = Py_NewRef(Py_None);
        items[6] = Py_NewRef(empty);
    }
    PyObject *row = PyTuple_New(7);
    int good = row != NULL;
    for (int i = 0; i < 7; i++) {
        good = good && items[i];
        if (row && items[i]) PyTuple_SetItem(row, i, items[i]);  /* takes it */
        else Py_XDECREF(items[i]);
    }
    if (good) return row;
    Py_XDECREF(row);
    return NULL;
}

static int append(PyObject *list, PyObject *item) {
    int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return !failed;
}

/* A `Block` of `decoders.py`. */
static PyObject *block_of(const Scan *scan, int64_t first) {
    PyObject *changes = PyList_New(0), *odd = PyList_New(0), *block = NULL;
    int good = changes && odd;
    for (Py_ssize_t i = 0; good && i < scan->size; i++) {
        const Found *found = &scan->found[i];
        Change change;
        if (found->is_change && read_change(found->data, found->data_end, &change)) {
            good = append(changes, row_of(found, first + found->index, &change));
        } else {
            good = append(odd, PyLong_FromSsize_t(found->index));
        }
    }
    if (good) block = Py_BuildValue("nOO", scan->lines, changes, odd);
    Py_XDECREF(changes);
    Py_XDECREF(odd);
    return block;
}

static PyObject *read_block(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *bytes, *block;
    long long first;
    char *text;
    Py_ssize_t size;
    int complete;
    Scan scan = {0};
    if (!PyArg_ParseTuple(args, "OL:read_block", &bytes, &first)) return NULL;
    if (PyBytes_AsStringAndSize(bytes, &text, &size) < 0) return NULL;
    if (size == 0 || text[size - 1] != '\n') {
        PyErr_SetString(PyExc_ValueError, "not whole lines");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    complete = scan_lines((Text)text, (Text)text + size, first, &scan);
    Py_END_ALLOW_THREADS
    block = complete ? block_of(&scan, first) : PyErr_NoMemory();
    free(scan.found);
    return block;
}

static PyMethodDef methods[] = {
    {"read_block", read_block, METH_VARARGS,
     "read_block(block, first)\n--\n\nRead whole lines, the first of which has the seq `first`."},
    {NULL, NULL, 0, NULL},
};

static int set_up(PyObject *Py_UNUSED(module)) {
    if (scanstring) return 0;  /* the module was loaded before */
    PyObject *json = PyImport_ImportModule("json.decoder");
    if (!json) return -1;
    scanstring = PyObject_GetAttrString(json, "scanstring");
    Py_DECREF(json);
    create_name = PyUnicode_InternFromString("create");
    delete_name = PyUnicode_InternFromString("delete");
    dispatch_name = PyUnicode_InternFromString("dispatch");
    empty = PyUnicode_InternFromString("");
    return scanstring && create_name && delete_name && dispatch_name && empty ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_plain_lines",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__plain_lines(void) {
    return PyModuleDef_Init(&definition);
}
