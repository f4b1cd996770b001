/* Load from a file of request frames, for any Kafka-protocol server: each connection sends its frames in turn and keeps DEPTH in flight.
   usage: frameload PORT CONNS SECONDS FRAMES [DEPTH [ERR [ANSWER [REQUESTS [WARM]]]]]
   ERR is where the response's int16 error code lies, from the start of the frame (12: Heartbeat v3) or, if negative, from its end
   (-2: OffsetCommit v2-7 of one partition); 0: not looked at. Default depth 1, ERR 12. Several with commas between: those of the
   answers to a connection's requests, in turn.
   RETRY in the environment, as CODE:MS: a request that is answered with this code is sent again after so many ms, and does not
   count (51:20, as Java clients do while their last transaction is ending); for depth 1.
   SERVER_PID in the environment: the CPU time (user and system, in ms) that process took meanwhile, connecting not counted.
   ANSWER is the largest response in bytes (default 65536); REQUESTS ends the run after so many answers (0, the default: none).
   WARM answers for each connection, on average, come before anything counts (default 0): clients stay for hours, and what
   a server does at their first requests is not what they cost it.
   Prints one JSON line: requests, bytes received, req/s, errors (codes that are not 0), the first such code, p50/p99/max latency in us. Build: cc -O2 -o frameload frameload.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <unistd.h>
#include <time.h>
#define MAXDEPTH 256
#define BUF (4 << 20)
typedef struct { int fd, cur; unsigned head, tail, done; double again; double sent[MAXDEPTH]; unsigned char *buf; int len; } Conn;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static int cmp(const void *a, const void *b) { float x = *(float *)a, y = *(float *)b; return x < y ? -1 : x > y; }
static uint32_t be32(const unsigned char *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static void cpu_ms(long ms[2]) {                     /* user and kernel time of SERVER_PID, from /proc; 0 without */
    char path[64], text[1024], *pid = getenv("SERVER_PID"), *p; unsigned long user, kernel;
    ms[0] = ms[1] = 0;
    if (!pid) return;
    snprintf(path, sizeof path, "/proc/%s/stat", pid); FILE *f = fopen(path, "r"); if (!f) return;
    text[fread(text, 1, sizeof text - 1, f)] = 0; fclose(f); p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2) return;
    ms[0] = user * 1000 / sysconf(_SC_CLK_TCK); ms[1] = kernel * 1000 / sysconf(_SC_CLK_TCK);
}
static int n, nf, *fl; static unsigned char **fr;
static int put(Conn *c, int k) {                     /* the next k frames in one send */
    static unsigned char out[BUF]; int len = 0; double t = now();
    while (k-- > 0) {
        if (len + fl[c->cur] > BUF) { fprintf(stderr, "frames too large for this depth\n"); return -1; }
        memcpy(out + len, fr[c->cur], fl[c->cur]); len += fl[c->cur];
        c->cur = (c->cur + n) % nf; c->sent[c->tail++ % MAXDEPTH] = t;
    }
    for (int off = 0; off < len;) { int r = send(c->fd, out + off, len - off, 0); if (r < 0) { perror("send"); return -1; } off += r; }
    return 0;
}
int main(int ac, char **v) {
    if (ac < 5) { fprintf(stderr, "usage: frameload PORT CONNS SECONDS FRAMES [DEPTH [ERR [ANSWER [REQUESTS [WARM]]]]]\n"); return 2; }
    int port = atoi(v[1]); n = atoi(v[2]); double secs = atof(v[3]); int depth = ac > 5 ? atoi(v[5]) : 1, eos[16], ne = 0;
    for (char *at = ac > 6 ? v[6] : "12"; at && ne < 16; at = strchr(at, ',') ? strchr(at, ',') + 1 : 0) eos[ne++] = atoi(at);
    int room = ac > 7 ? atoi(v[7]) : 65536; long most = ac > 8 ? atol(v[8]) : 0, warm = ac > 9 ? atol(v[9]) * n : 0; double bytes = 0;
    if (depth < 1 || depth > MAXDEPTH) { fprintf(stderr, "depth is 1 to %d\n", MAXDEPTH); return 2; }
    FILE *f = fopen(v[4], "rb"); if (!f) { perror(v[4]); return 2; }
    fseek(f, 0, SEEK_END); long sz = ftell(f); rewind(f);
    unsigned char *d = malloc(sz); if (fread(d, 1, sz, f) != (size_t)sz) return 2;
    for (long p = 0; p < sz; p += 4 + be32(d + p)) nf++;
    fr = malloc(nf * sizeof *fr); fl = malloc(nf * sizeof *fl);
    int k = 0; for (long p = 0; p < sz; p += 4 + be32(d + p)) { fr[k] = d + p; fl[k++] = be32(d + p) + 4; }
    int ep = epoll_create1(0); Conn *cs = calloc(n, sizeof *cs);
    for (int i = 0; i < n; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7f000001)}; int one = 1;
        cs[i].fd = socket(AF_INET, SOCK_STREAM, 0); if (connect(cs[i].fd, (void *)&a, sizeof a)) { perror("connect"); return 1; }
        setsockopt(cs[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); cs[i].cur = i % nf; cs[i].buf = malloc(room);
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i}; epoll_ctl(ep, EPOLL_CTL_ADD, cs[i].fd, &e);
    }
    char *retry = getenv("RETRY"), *ms = retry ? strchr(retry, ':') : 0; int again = retry ? atoi(retry) : 0, waiting = 0; double pause = ms ? atof(ms + 1) * 1e-3 : 0;
    long cap = 4000000, cnt = 0, err = 0; int first = 0; float *lat = malloc(cap * sizeof(float)); double t0 = now(); long c0[2], c1[2]; cpu_ms(c0);
    for (int i = 0; i < n; i++) if (put(&cs[i], depth)) return 1;
    struct epoll_event ev[512];
    while (now() - t0 < (warm ? 60 : secs) && (warm || !most || cnt < most)) {
        int m = epoll_wait(ep, ev, 512, waiting ? 1 : 100);
        if (waiting) for (int i = 0; i < n; i++) if (cs[i].again && cs[i].again <= now()) { cs[i].again = 0; waiting--; if (put(&cs[i], 1)) return 1; }
        for (int j = 0; j < m; j++) {
            Conn *c = &cs[ev[j].data.u32]; int r = recv(c->fd, c->buf + c->len, room - c->len, 0);
            if (r <= 0) { printf("{\"closed_by_server_after\":%ld}\n", cnt); return 1; }
            c->len += r; bytes += r; int p = 0, got = 0; double x = now();
            while (c->len - p >= 4) {
                int l = be32(c->buf + p) + 4; if (l > room) { fprintf(stderr, "response of %d bytes\n", l); return 1; }
                if (c->len - p < l) break;
                int eo = eos[c->done % ne];
                if (eo && retry) {
                    unsigned char *q = c->buf + p + (eo < 0 ? l + eo : eo);
                    if ((q[0] << 8 | q[1]) == again) { c->cur = (c->cur - n + nf) % nf; c->again = x + pause; c->head++; waiting++; p += l; continue; }
                }
                if (eo) { unsigned char *q = c->buf + p + (eo < 0 ? l + eo : eo); int code = q[0] << 8 | q[1]; if (code && !err++) first = (int16_t)code; }
                if (cnt < cap) lat[cnt] = (x - c->sent[c->head % MAXDEPTH]) * 1e6;
                c->head++; c->done++; cnt++; got++; p += l;
            }
            memmove(c->buf, c->buf + p, c->len - p); c->len -= p;
            if (got && put(c, got)) return 1;
            if (warm && cnt >= warm) { warm = cnt = 0; bytes = 0; t0 = now(); cpu_ms(c0); }
        }
    }
    if (warm) { fprintf(stderr, "not warm after a minute\n"); return 1; }
    double el = now() - t0; cpu_ms(c1); long q = cnt < cap ? cnt : cap; if (!q) { printf("{\"req_s\":0}\n"); return 1; }
    qsort(lat, q, sizeof(float), cmp);
    printf("{\"conns\":%d,\"depth\":%d,\"requests\":%ld,\"bytes\":%.0f,\"user_ms\":%ld,\"kernel_ms\":%ld,\"req_s\":%.0f,\"errors\":%ld,\"first_error\":%d,\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f}\n", n, depth, cnt, bytes, c1[0] - c0[0], c1[1] - c0[1], cnt / el, err, first, lat[q / 2], lat[(long)(q * .99)], lat[q - 1]);
    return 0;
}
