// The LM head of a language model with its vocabulary over ranks: each has a part of the weight, and three all-reduces
// make of the parts' statistics and gradients those of the whole. One source, three ways to start the ranks:
//
//   g++ -std=c++11 vocab_parallel.cpp -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi -lhccl -pthread
//   ./a.out threads 4        a thread a rank, HcclCommInitAll
//   ./a.out processes 4      a process a rank, the root info in a file
//   mpicxx -DWITH_MPI …      mpirun -n 4 ./a.out, the root info by MPI_Bcast; with a rank table's path behind it, by
//   that
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#ifdef WITH_MPI
#include <mpi.h>
#endif

#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "device.h"
#include "hccl/hccl.h"

static const int64_t kTokens = 256, kWords = 16000, kHidden = 64;

struct Model {
    std::vector<uint16_t> input, weight;  // [tokens, hidden], [words, hidden]
    std::vector<int32_t> target;
    std::vector<float> grad;

    Model() {
        uint32_t state = 1;
        const auto random = [&state] {  // about uniform in -1..1
            state = state * 1664525u + 1013904223u;
            return static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
        };
        for (int64_t i = 0; i < kTokens * kHidden; ++i) input.push_back(to_bf16(random()));
        for (int64_t i = 0; i < kWords * kHidden; ++i) weight.push_back(to_bf16(0.5f * random()));
        for (int64_t i = 0; i < kTokens; ++i) target.push_back(static_cast<int32_t>(i * 7919 % kWords));
        grad.assign(static_cast<size_t>(kTokens), 1.0f / static_cast<float>(kTokens));
    }
};

struct Answer {
    std::vector<float> loss;
    std::vector<uint16_t> input_grad, weight_grad;  // weight_grad: of the rank's own words
};

// Where rank r's words begin: parts of different size, none below 128.
static int64_t first_word(int rank, int ranks) { return kWords * rank / ranks + (rank > 0 && rank < ranks ? 37 : 0); }

// One step of training on one rank. comm NULL: the whole vocabulary is here.
static Answer train_step(const Model& model, int rank, int ranks, HcclComm comm, aclrtStream stream) {
    const int64_t first = first_word(rank, ranks), words = first_word(rank + 1, ranks) - first;
    Tensor<uint16_t> input({kTokens, kHidden}, ACL_BF16), weight({words, kHidden}, ACL_BF16);
    Tensor<uint16_t> input_grad({kTokens, kHidden}, ACL_BF16), weight_grad({words, kHidden}, ACL_BF16);
    Tensor<int32_t> target({kTokens}, ACL_INT32), masked({kTokens}, ACL_INT32);
    Tensor<uint8_t> mask({(kTokens + 7) / 8}, ACL_UINT8);
    Tensor<float> max({kTokens}, ACL_FLOAT), sum({kTokens}, ACL_FLOAT), predicted({kTokens}, ACL_FLOAT);
    Tensor<float> both({2 * kTokens}, ACL_FLOAT), loss({kTokens}, ACL_FLOAT), grad({kTokens}, ACL_FLOAT);
    input.write(model.input);
    weight.write(model.weight.data() + first * kHidden);
    target.write(model.target);
    grad.write(model.grad);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;

    CHECK(aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(input.get(), weight.get(), target.get(), first, first + words,
                                                       max.get(), sum.get(), predicted.get(), mask.get(), masked.get(),
                                                       nullptr, &size, &executor));
    launch(aclnnFusedLinearOnlineMaxSum, size, executor, stream);

    // M = max m_r. The sums of this rank are based on its own m_r, and have to be moved to M before they can be added.
    const std::vector<float> own_max = max.read(), s = sum.read(), p = predicted.read();
    const std::vector<uint8_t> elsewhere = mask.read();
    if (comm != nullptr) {
        CHECK(HcclAllReduce(max.data(), max.data(), kTokens, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, comm, stream));
        CHECK(aclrtSynchronizeStream(stream));
    }
    const std::vector<float> all_max = max.read();
    std::vector<float> sums(2 * static_cast<size_t>(kTokens));
    for (size_t i = 0; i < own_max.size(); ++i) {
        const float down = own_max[i] - all_max[i];
        const bool owned = (elsewhere[i / 8] >> i % 8 & 1) == 0;
        sums[i] = s[i] * std::exp(down);
        sums[own_max.size() + i] = owned ? p[i] + down : 0;
    }
    both.write(sums);
    if (comm != nullptr) {
        CHECK(HcclAllReduce(both.data(), both.data(), 2 * kTokens, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
        CHECK(aclrtSynchronizeStream(stream));
    }
    const std::vector<float> all_sums = both.read();
    sum.write(all_sums.data());
    predicted.write(all_sums.data() + kTokens);

    CHECK(aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(
        max.get(), sum.get(), predicted.get(), 0.0f, nullptr, nullptr, nullptr, loss.get(), nullptr, &size, &executor));
    launch(aclnnFusedCrossEntropyLossWithMaxSum, size, executor, stream);
    CHECK(aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(grad.get(), input.get(), weight.get(), mask.get(),
                                                               masked.get(), 0.0f, max.get(), sum.get(), nullptr,
                                                               input_grad.get(), weight_grad.get(), &size, &executor));
    launch(aclnnFusedLinearCrossEntropyLossGrad, size, executor, stream);
    if (comm != nullptr) {
        CHECK(HcclAllReduce(input_grad.data(), input_grad.data(), kTokens * kHidden, HCCL_DATA_TYPE_BFP16,
                            HCCL_REDUCE_SUM, comm, stream));
        CHECK(aclrtSynchronizeStream(stream));
    }
    Answer answer;
    answer.loss = loss.read();
    answer.input_grad = input_grad.read();
    answer.weight_grad = weight_grad.read();
    return answer;
}

// Largest difference in units of the largest value.
static double distance(const uint16_t* a, const uint16_t* b, size_t n) {
    double most = 0, scale = 0;
    for (size_t i = 0; i < n; ++i) {
        const double difference =
            std::fabs(static_cast<double>(from_bf16(a[i])) - static_cast<double>(from_bf16(b[i])));
        most = std::isnan(difference) ? HUGE_VAL : std::max(most, difference);
        scale = std::max(scale, std::fabs(static_cast<double>(from_bf16(b[i]))));
    }
    return most / scale;
}

// The same bits everywhere: the sum of all ranks' checksums is then the number of ranks times this one.
static bool same_on_all(const Answer& answer, uint64_t ranks, HcclComm comm, aclrtStream stream) {
    uint64_t sum = 1469598103934665603u;
    for (float x : answer.loss) {
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        sum = (sum ^ bits) * 1099511628211u;
    }
    for (uint16_t bits : answer.input_grad) sum = (sum ^ bits) * 1099511628211u;
    Tensor<int64_t> own({1}, ACL_INT64), all({static_cast<int64_t>(ranks)}, ACL_INT64);
    const int64_t word = static_cast<int64_t>(sum);
    own.write(&word);
    CHECK(HcclAllGather(own.data(), all.data(), 1, HCCL_DATA_TYPE_INT64, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    const std::vector<int64_t> words = all.read();
    return std::count(words.begin(), words.end(), word) == static_cast<long>(ranks);
}

// What every rank does, however it was started. Device and communicator are there.
static int rank_main(int rank, int ranks, HcclComm comm) {
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream));
    const Model model;
    train_step(model, rank, ranks, comm, stream);  // once to warm up
    const auto start = std::chrono::steady_clock::now();
    const Answer answer = train_step(model, rank, ranks, comm, stream);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const bool same = same_on_all(answer, static_cast<uint64_t>(ranks), comm, stream);
    const double memory = peak_memory();

    const Answer alone = train_step(model, 0, 1, nullptr, stream);  // the whole vocabulary on one rank
    double loss_difference = 0, mean = 0;
    for (size_t i = 0; i < alone.loss.size(); ++i) {
        const double a = static_cast<double>(answer.loss[i]), b = static_cast<double>(alone.loss[i]);
        loss_difference = std::max(loss_difference, std::fabs(a - b) / b);
        mean += a / static_cast<double>(kTokens);
    }
    const double dx = distance(answer.input_grad.data(), alone.input_grad.data(), alone.input_grad.size());
    const uint16_t* const own_words = alone.weight_grad.data() + first_word(rank, ranks) * kHidden;
    const double dw = distance(answer.weight_grad.data(), own_words, answer.weight_grad.size());
    // the loss is f32; inputGrad is a sum of one rounded bf16 number a rank; weightGrad is one bf16 number
    const bool good = same && loss_difference < 1e-5 && dx < (ranks + 1) / 256.0 && dw < 1.0 / 128;
    std::printf(
        "rank %d of %d: loss %.6f, beside one rank: loss %.0e, inputGrad %.0e, weightGrad %.0e; %s; %.1f ms, "
        "%.0f MiB\n",
        rank, ranks, mean, loss_difference, dx, dw, same ? "same bits on all ranks" : "RANKS DIFFER", ms, memory);
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtDestroyStream(stream));
    if (!good) std::printf("rank %d: WRONG\n", rank);
    return good ? 0 : 1;
}

#ifndef WITH_MPI
static int as_threads(int ranks) {
    std::vector<int32_t> devices;
    std::vector<HcclComm> comms(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) devices.push_back(r);
    CHECK(aclInit(nullptr));
    CHECK(HcclCommInitAll(static_cast<uint32_t>(ranks), devices.data(), comms.data()));
    std::vector<int> codes(static_cast<size_t>(ranks), 1);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&codes, &comms, r, ranks] {
            CHECK(aclrtSetDevice(r));
            codes[static_cast<size_t>(r)] = rank_main(r, ranks, comms[static_cast<size_t>(r)]);
            CHECK(aclrtResetDevice(r));
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(aclFinalize());
    return *std::max_element(codes.begin(), codes.end());
}
#endif

// `share` hands rank 0's root info to the others.
template <typename Share>
static HcclComm by_root_info(int rank, int ranks, const Share& share) {
    HcclRootInfo info;
    HcclComm comm = nullptr;
    if (rank == 0) CHECK(HcclGetRootInfo(&info));
    share(info);
    CHECK(HcclCommInitRootInfo(static_cast<uint32_t>(ranks), &info, static_cast<uint32_t>(rank), &comm));
    return comm;
}

// A program with a process a rank; `join` makes its communicator.
template <typename Join>
static int as_process(int rank, int ranks, const Join& join) {
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(rank % 8));
    const int code = rank_main(rank, ranks, join());
    CHECK(aclrtResetDevice(rank % 8));
    CHECK(aclFinalize());
    return code;
}

#ifndef WITH_MPI
static int as_processes(int ranks) {
    const char* const folder = std::getenv("TMPDIR");
    const std::string path =
        std::string(folder != nullptr ? folder : "/tmp") + "/vocab_parallel." + std::to_string(getpid());
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
        const pid_t child = fork();
        const auto share = [&](HcclRootInfo& info) {
            if (rank == 0) {
                std::FILE* file = std::fopen((path + ".new").c_str(), "wb");
                check(file == nullptr || std::fwrite(&info, sizeof info, 1, file) != 1 || std::fclose(file) != 0,
                      "writing the root info");
                check(std::rename((path + ".new").c_str(), path.c_str()), "rename");  // whole, or not there
                return;
            }
            std::FILE* file = nullptr;
            while ((file = std::fopen(path.c_str(), "rb")) == nullptr) usleep(1000);
            check(std::fread(&info, sizeof info, 1, file) != 1, "reading the root info");
            std::fclose(file);
        };
        if (child == 0) std::exit(as_process(rank, ranks, [&] { return by_root_info(rank, ranks, share); }));
        children.push_back(child);
    }
    int worst = 0;
    for (const pid_t child : children) {
        int status = 1;
        waitpid(child, &status, 0);
        worst = std::max(worst, status == 0 ? 0 : 1);
    }
    std::remove(path.c_str());
    return worst;
}
#endif

int main(int argc, char** argv) {
#ifdef WITH_MPI
    int rank = 0, ranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int code = as_process(rank, ranks, [&]() -> HcclComm {
        HcclComm comm = nullptr;
        if (argc > 1) return CHECK(HcclCommInitClusterInfo(argv[1], static_cast<uint32_t>(rank), &comm)), comm;
        return by_root_info(rank, ranks,
                            [](HcclRootInfo& info) { MPI_Bcast(&info, sizeof info, MPI_CHAR, 0, MPI_COMM_WORLD); });
    });
    MPI_Finalize();
    return code;
#else
    const std::string how = argc > 1 ? argv[1] : "threads";
    const int ranks = argc > 2 ? std::atoi(argv[2]) : 3;
    if ((how != "threads" && how != "processes") || ranks < 1 || ranks > 8)
        return std::fprintf(stderr, "usage: vocab_parallel [threads|processes] [1 to 8]\n"), 2;
    std::fflush(stdout);
    return how == "threads" ? as_threads(ranks) : as_processes(ranks);
#endif
}
