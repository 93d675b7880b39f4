/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving half of a server's WebSocket. */
#include "net/websocket-frames.h"

#include <string.h>
#include <wslay/wslay.h>

#include "core/buf.h"
#include "core/mem.h"
#include "net/websocket.h"

#define INVALID_TEXT 1007
#define NO_CODE      1005

struct websocket_reader {
    wslay_frame_context_ptr frames;
    const struct websocket_reader_events *events;
    void *owner;
    size_t message_max;
    unsigned fragments_max;

    /* What is being fed. */
    const char *data;
    size_t left;
    bool stop;
    int fail;
    bool closed;

    /* The frame that is being fed. */
    uint8_t head[WEBSOCKET_HEADER_MAX];
    size_t head_size;
    uint64_t payload_left;
    bool announced_too_much;

    /* The current frame. */
    bool in_frame;
    uint64_t frame_left;
    char control[WEBSOCKET_CONTROL_MAX];
    size_t control_size;

    /* The current message. */
    uint64_t begun; /* how many there were, with this one */
    bool in_message;
    bool text;
    unsigned fragments;
    struct utf8_check utf8;
    struct buf message;
};

/* wslay tells of a frame's head only together with the first of its payload, which may never come.
   So heads are fed to it byte by byte and read on the way: what announces too much fails at once.
 */
static size_t head_length_end(const uint8_t *head, size_t size)
{
    size_t length = size < 2 ? 0 : head[1] & 0x7f;
    return length == 127 ? 10 : length == 126 ? 4 : 2;
}

static uint64_t head_payload(const uint8_t *head)
{
    size_t end = head_length_end(head, 2);
    uint64_t length = end == 2 ? head[1] & 0x7f : 0;
    for (size_t i = 2; i < end; i++)
        length = length << 8 | head[i];
    return length;
}

static void take_head_byte(struct websocket_reader *reader, uint8_t byte)
{
    uint8_t *head = reader->head;
    head[reader->head_size++] = byte;
    size_t end = head_length_end(head, reader->head_size);
    if (reader->head_size < end)
        return;
    bool masked = head[1] & 0x80;
    uint8_t opcode = head[0] & 0xf;
    uint64_t payload = head_payload(head);
    /* What is wrong in another way fails for that. */
    if (reader->head_size == end && masked && !(head[0] & 0x70) && !wslay_is_ctrl_frame(opcode) &&
        payload <= INT64_MAX && payload > reader->message_max - reader->message.size)
        reader->announced_too_much = true;
    if (reader->head_size < end + (masked ? 4 : 0))
        return;
    reader->payload_left = payload;
    reader->head_size = 0;
}

static ssize_t on_receive(uint8_t *buffer, size_t size, int flags, void *owner)
{
    struct websocket_reader *reader = owner;
    (void)flags;
    uint64_t most = reader->payload_left ? reader->payload_left : 1;
    if (size > reader->left)
        size = reader->left;
    if (size > most)
        size = (size_t)most;
    if (size == 0)
        return -1;
    memcpy(buffer, reader->data, size);
    reader->data += size;
    reader->left -= size;
    if (reader->payload_left)
        reader->payload_left -= size;
    else
        take_head_byte(reader, buffer[0]);
    return (ssize_t)size;
}

struct websocket_reader *websocket_reader_new(size_t message_max, unsigned fragments_max,
                                              const struct websocket_reader_events *events,
                                              void *owner)
{
    static const struct wslay_frame_callbacks callbacks = {.recv_callback = on_receive};
    struct websocket_reader *reader = xcalloc(1, sizeof *reader);
    reader->events = events;
    reader->owner = owner;
    reader->message_max = message_max;
    reader->fragments_max = fragments_max;
    /* And a NUL. */
    reader->message.ceiling = message_max < SIZE_MAX ? message_max + 1 : message_max;
    if (wslay_frame_context_init(&reader->frames, &callbacks, reader) != 0)
        abort();
    return reader;
}

void websocket_reader_free(struct websocket_reader *reader)
{
    wslay_frame_context_free(reader->frames);
    buf_release(&reader->message);
    free(reader);
}

void websocket_reader_stop(struct websocket_reader *reader)
{
    reader->stop = true;
}

/* The code to fail with for a frame that begins, or 0. Its size is only what it says of itself:
   nothing has been kept of it yet. */
static int begin_frame(struct websocket_reader *reader, const struct wslay_frame_iocb *frame)
{
    if (!frame->mask || frame->rsv)
        return WEBSOCKET_PROTOCOL;
    switch (frame->opcode) {
    case WSLAY_CONNECTION_CLOSE:
    case WSLAY_PING:
    case WSLAY_PONG:
        return frame->payload_length > WEBSOCKET_CONTROL_MAX || !frame->fin ? WEBSOCKET_PROTOCOL
                                                                            : 0;
    case WSLAY_CONTINUATION_FRAME:
        if (!reader->in_message)
            return WEBSOCKET_PROTOCOL;
        break;
    case WSLAY_TEXT_FRAME:
    case WSLAY_BINARY_FRAME:
        if (reader->in_message)
            return WEBSOCKET_PROTOCOL;
        reader->in_message = true;
        reader->begun++;
        reader->text = frame->opcode == WSLAY_TEXT_FRAME;
        reader->fragments = 0;
        reader->utf8 = (struct utf8_check){0};
        break;
    default:
        return WEBSOCKET_PROTOCOL;
    }
    /* Empty fragments cost the sender little and would go on for ever. */
    if (++reader->fragments > reader->fragments_max ||
        frame->payload_length > reader->message_max - reader->message.size)
        return WEBSOCKET_TOO_BIG;
    return 0;
}

static int take_payload(struct websocket_reader *reader, const struct wslay_frame_iocb *frame)
{
    const char *data = (const char *)frame->data;
    reader->frame_left -= frame->data_length;
    if (wslay_is_ctrl_frame(frame->opcode)) {
        memcpy(reader->control + reader->control_size, data, frame->data_length);
        reader->control_size += frame->data_length;
        return 0;
    }
    if (reader->text && !utf8_check_feed(&reader->utf8, data, frame->data_length))
        return INVALID_TEXT;
    buf_append(&reader->message, data, frame->data_length);
    return 0;
}

static int end_close(struct websocket_reader *reader)
{
    const uint8_t *payload = (const uint8_t *)reader->control;
    int code = NO_CODE;
    if (reader->control_size == 1)
        return WEBSOCKET_PROTOCOL;
    if (reader->control_size >= 2) {
        struct utf8_check utf8 = {0};
        code = payload[0] << 8 | payload[1];
        if (!websocket_close_code_valid(code))
            return WEBSOCKET_PROTOCOL;
        if (!utf8_check_feed(&utf8, reader->control + 2, reader->control_size - 2) ||
            !utf8_check_done(&utf8))
            return INVALID_TEXT;
    }
    reader->closed = true;
    reader->events->close(code, reader->owner);
    return 0;
}

uint64_t websocket_reader_unfinished(const struct websocket_reader *reader)
{
    return reader->in_message ? reader->begun : 0;
}

static int end_message(struct websocket_reader *reader)
{
    if (reader->text && !utf8_check_done(&reader->utf8))
        return INVALID_TEXT;
    reader->in_message = false;
    /* An idle WebSocket keeps no buffer. */
    cleanup_buf struct buf message = reader->message;
    reader->message = (struct buf)BUF_INIT(message.ceiling);
    size_t size = message.size;
    buf_append(&message, "", 1);
    reader->events->message(reader->text, message.data, size, reader->owner);
    return 0;
}

static int end_frame(struct websocket_reader *reader, const struct wslay_frame_iocb *frame)
{
    reader->in_frame = false;
    switch (frame->opcode) {
    case WSLAY_CONNECTION_CLOSE:
        return end_close(reader);
    case WSLAY_PING:
        reader->events->ping(reader->control, reader->control_size, reader->owner);
        return 0;
    case WSLAY_PONG:
        return 0;
    default:
        return frame->fin ? end_message(reader) : 0;
    }
}

static int take_frame(struct websocket_reader *reader, const struct wslay_frame_iocb *frame)
{
    int code = 0;
    if (!reader->in_frame) {
        reader->in_frame = true;
        reader->frame_left = frame->payload_length;
        reader->control_size = 0;
        code = begin_frame(reader, frame);
    }
    if (!code)
        code = take_payload(reader, frame);
    if (!code && reader->frame_left == 0)
        code = end_frame(reader, frame);
    return code;
}

size_t websocket_reader_feed(struct websocket_reader *reader, const char *data, size_t size,
                             int *ret_fail)
{
    reader->data = data;
    reader->left = size;
    reader->stop = false;
    while (!reader->stop && !reader->closed && !reader->fail) {
        struct wslay_frame_iocb frame;
        memset(&frame, 0, sizeof frame);
        ssize_t r = wslay_frame_recv(reader->frames, &frame);
        if (reader->announced_too_much) {
            reader->fail = WEBSOCKET_TOO_BIG;
        } else if (r == WSLAY_ERR_WANT_READ) {
            /* It also says so with bytes left, if those it had did not reach. */
            if (reader->left == 0)
                break;
        } else {
            reader->fail = r < 0 ? WEBSOCKET_PROTOCOL : take_frame(reader, &frame);
        }
    }
    *ret_fail = reader->fail;
    return size - reader->left;
}
