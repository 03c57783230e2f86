#include "hccl/communicator.h"

#include <algorithm>
#include <iterator>

#include "base/observer.h"
#include "runtime/context.h"

namespace gradus::hccl {
namespace {

// More blocks with gaps between them than this count as one: to compare each with each would take too long.
constexpr size_t kMostPieces = 512;

// Blocks that touch are one, and so are all where gaps do not matter.
std::vector<Block> joined(std::span<const Block> blocks, Gaps gaps) {
    std::vector<Block> sorted, pieces;
    std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(sorted), [](const Block& b) { return b.bytes > 0; });
    std::sort(sorted.begin(), sorted.end(), [](const Block& a, const Block& b) { return a.offset < b.offset; });
    for (const Block& b : sorted) {
        if (pieces.empty() || (gaps == Gaps::apart && b.offset > pieces.back().offset + pieces.back().bytes))
            pieces.push_back(b);
        else
            pieces.back().bytes = std::max(pieces.back().bytes, b.offset + b.bytes - pieces.back().offset);
    }
    return pieces.size() > kMostPieces ? joined(blocks, Gaps::joined) : pieces;
}

void add(std::vector<Footprint>& list, const std::byte* base, std::span<const Block> blocks, Gaps gaps, bool written,
         const char* argument) {
    for (const Block& b : joined(blocks, gaps)) list.push_back({base + b.offset, b.bytes, written, argument});
}

// Only what the program got from us, unless option `memory` says that any will do.
Status check_memory(const Footprint& footprint, Memory memory, CommTask& task) {
    auto allocation = find_allocation(footprint.begin);
    if (!allocation) {
        if (memory == Memory::any) return {};
        return {HCCL_E_PARA, concat(footprint.argument,
                                    ": an address outside every device allocation "
                                    "(GRADUS_MEMORY=any allows other memory)")};
    }
    if (!allocation->contains(footprint.begin, footprint.bytes))
        return {HCCL_E_PARA, concat(footprint.argument, ": ", footprint.bytes,
                                    " bytes leave their device allocation of ", allocation->footprint(), " bytes")};
    task.owned.push_back(std::move(allocation));
    return {};
}

// What a rank sends to itself it receives in the same call: nobody else could ever take it.
Status check_own(const Batch& batch, uint32_t rank) {
    const auto next = [&](size_t from, bool sends) {
        while (from < batch.size() && (batch[from].peer != rank || batch[from].sends != sends)) ++from;
        return from;
    };
    for (size_t sent = 0, received = 0;; ++sent, ++received) {
        sent = next(sent, true), received = next(received, false);
        const bool none_sent = sent == batch.size(), none_received = received == batch.size();
        if (none_sent && none_received) return {};
        if (none_sent || none_received)
            return {HCCL_E_PARA, concat("remoteRank: ", rank, " is this rank, and ", none_sent ? "receives" : "sends",
                                        " from or to itself without the other in the same batch or group")};
        if (batch[sent].bytes != batch[received].bytes || batch[sent].type != batch[received].type)
            return {HCCL_E_PARA, concat("remoteRank: ", rank, " is this rank, which sends ", describe(batch[sent]),
                                        " to itself and receives ", describe(batch[received]))};
    }
}

// For who observes.
std::unique_ptr<TaskInfo> info_of(const Work& work, size_t partners) {
    auto info = gradus::describe(TaskKind::collective);
    if (!info) return info;
    for (const Footprint& f : footprints_of(work, Gaps::apart)) {
        const auto bytes = static_cast<int64_t>(f.bytes);
        const TensorView view{.rank = 1, .size = {bytes}, .stride = {1}, .dtype = DType::u8};
        info->accesses.push_back({f.argument, f.begin, view, !f.written, f.written});
        info->bytes += bytes;
    }
    info->gives.assign(partners, 0);
    info->takes.assign(partners, 0);
    return info;
}

}  // namespace

std::vector<Footprint> footprints_of(const Work& work, Gaps gaps) {
    std::vector<Footprint> list;
    if (const auto* batch = std::get_if<Batch>(&work)) {
        for (const Transfer& t : *batch) {
            const Block whole{0, t.bytes};
            add(list, t.data, {&whole, 1}, gaps, !t.sends, t.sends ? "sendBuf" : "recvBuf");
        }
        return list;
    }
    const auto& c = std::get<Collective>(work);
    const bool one = c.terms.kind == Kind::broadcast;
    add(list, c.send, c.out, gaps, false, one ? "buf" : "sendBuf");
    add(list, c.recv, c.in, gaps, true, one ? "buf" : "recvBuf");
    return list;
}

Status check_name(const Membership& membership) {
    for (const auto& [handle, comm] : Communicators::instance().entries())
        if (comm && !comm->lost_in_fork() && comm->is.name == membership.name && comm->is.device == membership.device &&
            comm->is.group != membership.group)
            return {HCCL_E_PARA, concat("config: hcclCommName '", membership.name,
                                        "' is the name of another communicator of device ", membership.device)};
    return {};
}

Status Communicator::check_alive() {
    {
        const Lock lock = hold();
        if (ended) return {HCCL_E_PARA, "comm: has been destroyed since"};
    }
    Status why = failure();
    if (why.ok() || lost_in_fork()) return why;
    return {why.code(), concat("comm: has failed: ", why.message())};
}

Clock::time_point Communicator::deadline() const {
    if (is.exec_timeout_s == 0) return Clock::time_point::max();
    return Clock::now() + std::chrono::seconds(is.exec_timeout_s);
}

CommTask::CommTask(std::shared_ptr<Communicator> comm, Work work) : comm_(std::move(comm)), work_(std::move(work)) {
    const Lock lock = hold();
    ++comm_->pending;
}

CommTask::~CommTask() { end({}); }

Text CommTask::failure() const noexcept { return status_.message(); }

void CommTask::to_library(const std::vector<Footprint>& footprints) {
    if (!memory_policy().two_mappings) return;
    const auto shift_of = [](const std::byte* address) {
        const auto allocation = find_allocation(address);
        return allocation ? allocation->shift() : 0;
    };
    if (auto* const batch = std::get_if<Batch>(&work_)) {
        for (Transfer& t : *batch) t.data += shift_of(t.data);
        return;
    }
    auto& c = std::get<Collective>(work_);
    for (const Footprint& f : footprints) {  // of blocks: a buffer may begin outside of what it uses
        if (f.written)
            c.recv += shift_of(f.begin);
        else
            c.send += shift_of(f.begin);
    }
}

int CommTask::end(const Status& status) noexcept {
    const Lock lock = hold();
    if (!ended_) {
        status_ = status;
        --comm_->pending;
    }
    ended_ = true;
    return status.ok() ? 0 : ACL_ERROR_RT_INTERNAL_ERROR;
}

Status submit(const std::shared_ptr<Communicator>& comm, Work work, aclrtStream handle) {
    const auto settings = config();
    if (!settings.ok()) return {HCCL_E_PARA, settings.status().message()};
    const auto stream = find_stream(handle);
    if (!stream.ok()) return {HCCL_E_PARA, stream.status().message()};
    if (settings->limits && (*stream)->device() != comm->is.device)
        return {HCCL_E_PARA, concat("stream: of device ", (*stream)->device(), ", the communicator is of device ",
                                    comm->is.device, " (a limit of the device: GRADUS_LIMITS=off lifts it)")};
    if (const auto* const transfers = std::get_if<Batch>(&work)) GRADUS_TRY(check_own(*transfers, comm->is.rank));
    GRADUS_TRY(comm->check_alive());
    std::unique_ptr<CommTask> task = comm->make_task(std::move(work));
    const std::vector<Footprint> footprints = footprints_of(task->work(), Gaps::joined);
    const auto* const batch = std::get_if<Batch>(&task->work());
    task->info = info_of(task->work(), batch != nullptr ? batch->size() : comm->is.ranks);
    tell(task->info.get(), &Observer::on_attempt);
    for (const Footprint& footprint : footprints) GRADUS_TRY(check_memory(footprint, settings->memory, *task));
    task->to_library(footprints);
    CommTask& issued = *task;
    {
        const Lock lock = hold();
        issued.issue(**stream);
    }
    const Status queued = (*stream)->submit(std::move(task));
    return queued.ok() ? queued : Status(HCCL_E_RUNTIME, queued.message());
}

}  // namespace gradus::hccl
