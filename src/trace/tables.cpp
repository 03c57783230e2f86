#include "trace/tables.h"

#include <algorithm>
#include <cstring>

namespace gradus::trace {
namespace {

const char* name_of(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return "FLOAT";
        case DType::f16:
            return "FLOAT16";
        case DType::bf16:
            return "DT_BF16";
        case DType::f64:
            return "DOUBLE";
        case DType::i32:
            return "INT32";
        case DType::i64:
            return "INT64";
        case DType::u8:
            return "UINT8";
        case DType::boolean:
            return "BOOL";
    }
    return "UNDEFINED";
}

std::string_view without_prefix(std::string_view function) {
    return function.substr(function.rfind("aclnn", 0) == 0 ? 5 : 0);
}

// "4,8;4,16", dtypes and formats of all that are read, or all that are written.
template <typename F>
void join(Output& out, const Detail* detail, bool writes, const F& write_one) {
    out << ",\"";
    bool first = true;
    for (size_t i = 0; detail != nullptr && i < detail->operands.size(); ++i) {
        if (detail->operands[i].writes != writes) continue;
        if (!first) out << ";";
        first = false;
        write_one(detail->operands[i]);
    }
    out << "\"";
}

void write_operands(Output& out, const Detail* detail, bool writes) {
    join(out, detail, writes, [&](const Operand& operand) {
        for (int32_t i = 0; i < operand.rank; ++i) out << (i == 0 ? "" : ",") << operand.size[i];
    });
    join(out, detail, writes, [&](const Operand& operand) { out << name_of(operand.dtype); });
    join(out, detail, writes, [&](const Operand&) { out << "ND"; });
}

struct Row {
    std::string_view name, type;
    int64_t device, task, stream;  // -1: none
    int64_t begin, end, idle, bytes;
    const Detail* detail;
    const void* site;
};

void write_row(Output& out, const Scene& scene, const Row& row) {
    out << "\n"
        << scene.process << "," << row.device << "," << row.task << "," << row.stream << "," << row.name << ","
        << without_prefix(row.name) << "," << row.type << ",";
    out.micros(row.begin);
    out << ",";
    out.micros(row.end - row.begin);
    out << ",";
    out.micros(row.idle);
    write_operands(out, row.detail, false);
    write_operands(out, row.detail, true);
    out << "," << (row.detail != nullptr ? row.detail->path : "") << ","
        << (row.detail != nullptr ? row.detail->workspace : 0) << "," << row.bytes << ",";
    out.decimal(row.end > row.begin ? static_cast<double>(row.bytes) / static_cast<double>(row.end - row.begin) : 0);
    out << ",";
    out.field(scene.sites.text(row.site));
}

struct Function {
    const char* name;
    bool prepares;
    int64_t count, least, most;
    double total, squares;  // µs
};

// Functions of the interface are fewer than this.
constexpr size_t kFunctions = 1024;

Function* find(std::span<Function> functions, const CallRecord& call) {
    const bool prepares = call.kind == CallKind::prepare;
    for (Function& f : functions) {
        if (f.name == nullptr) f = {call.function, prepares, 0, INT64_MAX, 0, 0, 0};
        if (f.prepares == prepares && (f.name == call.function || std::strcmp(f.name, call.function) == 0)) return &f;
    }
    return nullptr;
}

}  // namespace

void write_op_summary(Output& out, const Scene& scene) {
    out << "Process,Device_id,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),"
           "Task Wait Time(us),Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,"
           "Output Formats,Path,Workspace(B),Bytes(B),GB/s,Site";
    for (const Task& task : scene.snapshot.tasks()) {
        if (!task.ran() || (!task.computes() && !task.copies() && !task.communicates())) continue;
        write_row(out, scene,
                  {task.name, type_of(task.kind), task.device, static_cast<int64_t>(task.ticket), task.stream,
                   task.begin, task.end, task.idle, task.bytes, scene.store.details.find(task.detail), task.site});
    }
    const auto& ring = scene.store.calls;
    CallRecord call;
    for (uint64_t i = ring.first(); i <= ring.last(); ++i)
        if (ring.get(i, call) && call.kind == CallKind::work)
            write_row(out, scene,
                      {call.function, "HOST", -1, -1, -1, call.begin, call.end, 0, static_cast<int64_t>(call.value),
                       scene.store.details.find(call.detail), call.site});
    out << "\n";
}

void write_api_statistic(Output& out, const Scene& scene) {
    const Pages<Function> functions(kFunctions);
    const auto& ring = scene.store.calls;
    CallRecord call;
    for (uint64_t i = ring.first(); i <= ring.last(); ++i) {
        if (!ring.get(i, call) || call.kind == CallKind::work) continue;
        Function* const f = find(functions.items(), call);
        if (f == nullptr) continue;
        const int64_t ns = call.end - call.begin;
        const double us = static_cast<double>(ns) / 1e3;
        ++f->count;
        f->least = std::min(f->least, ns);
        f->most = std::max(f->most, ns);
        f->total += us;
        f->squares += us * us;
    }
    out << "Process,Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance";
    for (const Function& f : functions.items()) {
        if (f.name == nullptr) break;
        const double mean = f.total / static_cast<double>(f.count);
        out << "\n" << scene.process << ",host,acl," << f.name << (f.prepares ? "GetWorkspaceSize," : ",");
        out.decimal(f.total);
        out << "," << f.count << ",";
        out.decimal(mean);
        out << ",";
        out.micros(f.least);
        out << ",";
        out.micros(f.most);
        out << ",";
        out.decimal(std::max(0.0, f.squares / static_cast<double>(f.count) - mean * mean));
    }
    out << "\n";
}

}  // namespace gradus::trace
