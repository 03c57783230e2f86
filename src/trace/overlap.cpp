// Overlap Analysis: when a device computed, communicated, copied, waited for an event, or had nothing to do; and
// counters over time.
#include <algorithm>

#include "trace/chrome.h"

namespace gradus::trace {
namespace {

// Communication beside which nothing is computed is msprof's measure of what ranks cost.
enum Activity { kComputing, kCommunication, kNotOverlapped, kCopy, kWaiting, kFree, kActivities };
constexpr const char* kNames[kActivities] = {"Computing", "Communication", "Communication(Not Overlapped)",
                                             "Copy",      "Waiting",       "Free"};

// How much more of everything there is from a moment on.
struct Edge {
    int64_t at;
    double rate;
    int device;
    int8_t queued, computing, communicating, copying, waiting;
};

struct Level {
    double rate = 0;
    int queued = 0, computing = 0, communicating = 0, copying = 0, waiting = 0;

    void add(const Edge& edge) {
        rate += edge.rate;
        queued += edge.queued;
        computing += edge.computing;
        communicating += edge.communicating;
        copying += edge.copying;
        waiting += edge.waiting;
        if (!busy()) rate = 0;  // sums of fractions do not come back to 0 by themselves
    }
    bool busy() const { return computing > 0 || communicating > 0 || copying > 0; }
    bool is(Activity activity) const {
        switch (activity) {
            case kComputing:
                return computing > 0;
            case kCommunication:
                return communicating > 0;
            case kNotOverlapped:
                return communicating > 0 && computing == 0;
            case kCopy:
                return copying > 0;
            case kWaiting:
                return !busy() && waiting > 0;
            default:
                return !busy() && waiting == 0;
        }
    }
};

class Sweep {
  public:
    Sweep(Output& out, const Rows& rows, int device) : out_(out), rows_(rows), device_(device) {}

    void begin(int64_t at) {
        for (int a = 0; a < kActivities; ++a) {
            Event(out_, 'M', rows_.overlap(device_), row(a), 0).name("thread_name").text("name", kNames[a]).end();
            Event sort(out_, 'M', rows_.overlap(device_), row(a), 0);
            sort.name("thread_sort_index").number("sort_index", a).end();
            since_[a] = at;
        }
    }
    // All edges of one moment have been added.
    void step(int64_t at, const Level& before, const Level& after) {
        for (int a = 0; a < kActivities; ++a) {
            const auto activity = static_cast<Activity>(a);
            if (before.is(activity) == after.is(activity)) continue;
            if (before.is(activity)) close(a, at);
            since_[a] = at;
        }
        if (before.queued != after.queued) count("queue depth", "tasks", at, after.queued);
        if (before.rate != after.rate) count("GB/s", "GB/s", at, after.rate);
    }
    void end(int64_t at, const Level& last) {
        for (int a = 0; a < kActivities; ++a)
            if (last.is(static_cast<Activity>(a))) close(a, at);
    }

  private:
    static uint64_t row(int activity) { return static_cast<uint64_t>(activity) + 1; }
    void close(int activity, int64_t at) {
        if (at <= since_[activity]) return;
        Event event(out_, 'X', rows_.overlap(device_), row(activity), since_[activity]);
        event.duration(at - since_[activity]).name(kNames[activity], "overlap").end();
    }
    void count(const char* name, const char* unit, int64_t at, double value) {
        Event(out_, 'C', rows_.hardware(device_), 0, at).name(name).decimal(unit, value).end();
    }

    Output& out_;
    const Rows& rows_;
    const int device_;
    int64_t since_[kActivities] = {};
};

size_t list_edges(std::span<const Task> tasks, std::span<Edge> edges) {
    size_t count = 0;
    for (const Task& task : tasks) {
        if (!task.ran()) continue;
        const Edge asked{task.asked, 0, task.device, 1, 0, 0, 0, 0};
        const Edge begins{task.begin,
                          task.rate(),
                          task.device,
                          0,
                          static_cast<int8_t>(task.computes()),
                          static_cast<int8_t>(task.communicates()),
                          static_cast<int8_t>(task.copies()),
                          static_cast<int8_t>(task.waits())};
        const auto minus = [](int8_t value) { return static_cast<int8_t>(-value); };
        const Edge ends{task.end,
                        -begins.rate,
                        task.device,
                        -1,
                        minus(begins.computing),
                        minus(begins.communicating),
                        minus(begins.copying),
                        minus(begins.waiting)};
        for (const Edge& edge : {asked, begins, ends})
            if (count < edges.size()) edges[count++] = edge;
    }
    return count;
}

}  // namespace

void write_overlap(Output& out, const Scene& scene) {
    const auto tasks = scene.snapshot.tasks();
    const Pages<Edge> room(3 * tasks.size());
    const auto edges = room.items().first(list_edges(tasks, room.items()));
    std::sort(edges.begin(), edges.end(),
              [](const Edge& a, const Edge& b) { return a.device != b.device ? a.device < b.device : a.at < b.at; });
    const Rows rows(scene.process);
    for (size_t i = 0; i < edges.size();) {
        const int device = edges[i].device;
        Sweep sweep(out, rows, device);
        sweep.begin(edges[i].at);
        Level level;
        int64_t at = edges[i].at;
        while (i < edges.size() && edges[i].device == device) {
            const Level before = level;
            at = edges[i].at;
            for (; i < edges.size() && edges[i].device == device && edges[i].at == at; ++i) level.add(edges[i]);
            sweep.step(at, before, level);
        }
        sweep.end(at, level);
    }
}

}  // namespace gradus::trace
