/* A Video4Linux camera at $V4L2_PATH, loaded in front of the C library: the real OpenCV opens, sets and reads it.
 *
 * Its frames are the files $V4L2_FRAMES/000, 001, ..., after which it is unplugged. It has one pixel format,
 * $V4L2_FOURCC, at 640x480, and controls from 0 to 255 that clamp what they are set to, as drivers may. A buffer that is
 * given back while the device has no other is overwritten at once: a frame is to be copied before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <linux/videodev2.h>

enum { BYTES = 1 << 20, BUFFERS = 16, CONTROLS = 32, MOST = 255 };

static int device = -1, frames, queue[BUFFERS], given, taken;
static char *memory;
static struct { unsigned id; int value; } controls[CONTROLS];

static int *control(unsigned id) {
    int k = 0;
    while (controls[k].id != 0 && controls[k].id != id) k++;
    controls[k].id = id;
    return &controls[k].value;
}

static int open_with(const char *name, const char *path, int flags, int mode) {
    const char *ours = getenv("V4L2_PATH");
    if (ours != NULL && strcmp(path, ours) == 0) {
        device = memfd_create("camera", 0);
        if (ftruncate(device, BUFFERS * BYTES) != 0) return -1;
        memory = mmap(NULL, BUFFERS * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
        return device;
    }
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
    return real(path, flags, mode);
}

#define OPEN(name)                              \
    int name(const char *path, int flags, ...) { \
        va_list more;                           \
        va_start(more, flags);                  \
        int mode = va_arg(more, int);           \
        va_end(more);                           \
        return open_with(#name, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

static int dequeue(struct v4l2_buffer *buffer) {
    char name[4096];
    struct timespec now;
    snprintf(name, sizeof name, "%s/%03d", getenv("V4L2_FRAMES"), frames++);
    FILE *file = fopen(name, "rb");
    if (file == NULL || given == taken) {
        errno = ENODEV;
        return -1;
    }
    usleep(5000);
    buffer->index = queue[taken++ % BUFFERS];
    buffer->bytesused = fread(memory + buffer->index * BYTES, 1, BYTES, file);
    fclose(file);
    buffer->length = BYTES;
    buffer->m.offset = buffer->index * BYTES;
    buffer->flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    clock_gettime(CLOCK_MONOTONIC, &now);
    buffer->timestamp.tv_sec = now.tv_sec;
    buffer->timestamp.tv_usec = now.tv_nsec / 1000;
    return 0;
}

static int answer(unsigned request, void *data) {
    struct v4l2_buffer *buffer = data;
    struct v4l2_control *set = data;
    switch (request) {
    case VIDIOC_QUERYCAP:
        memset(data, 0, sizeof(struct v4l2_capability));
        ((struct v4l2_capability *)data)->capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
        return 0;
    case VIDIOC_G_FMT:
    case VIDIOC_S_FMT: {
        struct v4l2_pix_format *format = &((struct v4l2_format *)data)->fmt.pix;
        const char *code = getenv("V4L2_FOURCC");
        memset(format, 0, sizeof *format);
        format->width = 640;
        format->height = 480;
        format->pixelformat = v4l2_fourcc(code[0], code[1], code[2], code[3]);
        format->sizeimage = BYTES;
        return 0;
    }
    case VIDIOC_G_PARM:
    case VIDIOC_S_PARM:
        ((struct v4l2_streamparm *)data)->parm.capture.timeperframe = (struct v4l2_fract){1, 30};
        return 0;
    case VIDIOC_REQBUFS:
        given = taken = 0;
        return 0;
    case VIDIOC_QUERYBUF:
        buffer->length = BYTES;
        buffer->m.offset = buffer->index * BYTES;
        return 0;
    case VIDIOC_QBUF:
        if (given == taken) memset(memory + buffer->index * BYTES, 0x55, BYTES);
        queue[given++ % BUFFERS] = buffer->index;
        return 0;
    case VIDIOC_STREAMON:
    case VIDIOC_STREAMOFF:
        return 0;
    case VIDIOC_DQBUF:
        return dequeue(buffer);
    case VIDIOC_QUERYCTRL:
        ((struct v4l2_queryctrl *)data)->minimum = 0;
        ((struct v4l2_queryctrl *)data)->maximum = MOST;
        return 0;
    case VIDIOC_S_CTRL:
        *control(set->id) = set->value < MOST ? set->value : MOST;
        return 0;
    case VIDIOC_G_CTRL:
        set->value = *control(set->id);
        return 0;
    default:
        errno = EINVAL;
        return -1;
    }
}

int ioctl(int file, unsigned long request, ...) {
    va_list more;
    va_start(more, request);
    void *data = va_arg(more, void *);
    va_end(more);
    if (device >= 0 && file == device) return answer((unsigned)request, data);
    int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    return real(file, request, data);
}
