#include "base/check.h"

#include <cstring>

#include "ops/nsa_selected_attention/plan.h"

namespace gradus::nsa_selected_attention {
namespace {

constexpr int64_t kMostRows = int64_t{2} << 20, kMostLength = int64_t{1} << 17, kMostHeads = 128, kMostGroup = 32;
constexpr int64_t kCopies = 8;  // of max and sum

// What the two operators share, whatever their order.
struct Arguments {
    const TensorView &query, &key, &value, &topk;
    const TensorView* mask;
    std::vector<int64_t> query_ends, key_ends;
    const char *query_lengths, *key_lengths;  // the argument that says how long batches are
    int64_t heads, mode, size, count;
    const char* layout;
};

std::vector<int64_t> ends_of(const Call& call, int argument, int64_t rows) {
    return call.array(argument).value_or(std::vector<int64_t>{rows});
}

Arguments arguments_of(const Call& call, const Places& at) {
    const TensorView &query = call.view(forward::kQuery), &key = call.view(forward::kKey);
    return {query,
            key,
            call.view(forward::kValue),
            call.view(at.topk),
            call.given(at.mask) ? &call.view(at.mask) : nullptr,
            ends_of(call, at.query_lengths, query.of(0)),
            ends_of(call, at.key_lengths, key.of(0)),
            call.array(at.query_lengths) ? "actualSeqQLenOptional" : "query",
            call.array(at.key_lengths) ? "actualSeqKvLenOptional" : "key",
            call.integer(at.heads),
            call.integer(at.mode),
            call.integer(at.size),
            call.integer(at.count),
            call.text(at.layout)};
}

Status expect_sizes(const char* argument, const TensorView& view, int64_t a, int64_t b, int64_t c) {
    const int64_t wanted[] = {a, b, c};
    GRADUS_TRY(expect_rank(argument, view, 3, 3));
    return expect_shape(argument, view, wanted);
}

Status check_lengths(const char* argument, const std::vector<int64_t>& ends, const char* of, int64_t rows) {
    int64_t before = 0;
    for (size_t b = 0; b < ends.size(); ++b) {
        if (ends[b] < before)
            return invalid(argument, "length ", ends[b], " of entry ", static_cast<uint64_t>(b),
                           ", expected cumulative lengths of ", before, " or more");
        before = ends[b];
    }
    if (before != rows) return invalid(argument, "ends at ", before, ", expected ", rows, ", the rows of ", of);
    return {};
}

Status check_attributes(const Arguments& a) {
    if (std::strcmp(a.layout, "TND") != 0) return invalid("inputLayout", a.layout, ", expected TND");
    if (a.mode != 0 && a.mode != 2) return invalid("sparseMode", a.mode, ", expected 0 or 2");
    if (a.size < 16 || a.size > 128 || a.size % 16 != 0)
        return invalid("selectedBlockSize", a.size, ", expected a multiple of 16 from 16 to 128");
    if (a.count < 1 || a.count > 128) return invalid("selectedBlockCount", a.count, ", expected 1 to 128");
    return {};
}

Status check_operands(const Arguments& a) {
    const TensorView &q = a.query, &k = a.key, &v = a.value;
    GRADUS_TRY(expect_rank("query", q, 3, 3));
    GRADUS_TRY(expect_rank("key", k, 3, 3));
    GRADUS_TRY(expect_rank("value", v, 3, 3));
    GRADUS_TRY(expect_same_dtype("key", k, "query", q));
    GRADUS_TRY(expect_same_dtype("value", v, "query", q));
    if (q.of(2) < 1) return invalid("query", "size ", q.of(2), " of dim 2, expected 1 or more");
    if (k.of(1) < 1) return invalid("key", "size ", k.of(1), " of dim 1, expected 1 or more");
    if (v.of(2) < 1) return invalid("value", "size ", v.of(2), " of dim 2, expected 1 or more");
    if (a.heads != q.of(1))
        return invalid("headNum", a.heads, ", expected ", q.of(1), " as query of shape ", shape_text(q));
    if (q.of(1) < 1 || q.of(1) % k.of(1) != 0)
        return invalid("query", "size ", q.of(1), " of dim 1, expected a multiple of ", k.of(1), ", the heads of key");
    GRADUS_TRY(expect_sizes("key", k, k.of(0), k.of(1), q.of(2)));
    GRADUS_TRY(expect_sizes("value", v, k.of(0), k.of(1), v.of(2)));
    if (v.of(2) > q.of(2))
        return invalid("value", "size ", v.of(2), " of dim 2, expected at most ", q.of(2), ", that of query");
    if (a.mask != nullptr) GRADUS_TRY(expect_rank("attenMaskOptional", *a.mask, 2, 2));
    GRADUS_TRY(expect_sizes("topkIndices", a.topk, q.of(0), k.of(1), a.count));
    GRADUS_TRY(check_lengths("actualSeqQLenOptional", a.query_ends, "query", q.of(0)));
    GRADUS_TRY(check_lengths("actualSeqKvLenOptional", a.key_ends, "key", k.of(0)));
    if (a.query_ends.size() != a.key_ends.size())
        return invalid("actualSeqKvLenOptional", static_cast<uint64_t>(a.key_ends.size()), " batches, expected ",
                       static_cast<uint64_t>(a.query_ends.size()), " as actualSeqQLenOptional");
    return {};
}

Status expect_between(const char* argument, const char* what, int64_t got, int64_t least, int64_t most) {
    if (got >= least && got <= most) return {};
    return beyond_limit(argument, what, " ", got, ", expected ", least, " to ", most);
}

Status expect_head_size(const char* argument, int64_t got) {
    if (got == 128 || got == 192) return {};
    return beyond_limit(argument, "size ", got, " of dim 2, expected 128 or 192");
}

Status check_limits(const Arguments& a) {
    GRADUS_TRY(expect_between("query", "size of dim 0", a.query.of(0), 1, kMostRows));
    GRADUS_TRY(expect_between("key", "size of dim 0", a.key.of(0), 1, kMostRows));
    GRADUS_TRY(expect_between(a.query_lengths, "batches", static_cast<int64_t>(a.query_ends.size()), 1, kMostRows));
    GRADUS_TRY(expect_between("query", "size of dim 1", a.query.of(1), 1, kMostHeads));
    GRADUS_TRY(expect_between("query", "heads to a head of key", a.query.of(1) / a.key.of(1), 1, kMostGroup));
    GRADUS_TRY(expect_head_size("query", a.query.of(2)));
    GRADUS_TRY(expect_head_size("value", a.value.of(2)));
    int64_t query_begin = 0, key_begin = 0;
    for (size_t b = 0; b < a.query_ends.size(); ++b) {
        const int64_t length = a.key_ends[b] - key_begin;
        GRADUS_TRY(expect_between(a.query_lengths, "a batch of length", a.query_ends[b] - query_begin, 1, kMostLength));
        GRADUS_TRY(expect_between(a.key_lengths, "a batch of length", length, 1, kMostLength));
        if (length < a.size * a.count || length % a.size != 0)
            return beyond_limit(a.key_lengths, "a batch of length ", length, ", expected a multiple of ", a.size,
                                " and at least ", a.size * a.count);
        query_begin = a.query_ends[b], key_begin = a.key_ends[b];
    }
    return {};
}

Status expect_like_query(const char* argument, const Call& call, int i, const TensorView& query, int64_t a, int64_t b,
                         int64_t c) {
    GRADUS_TRY(expect_same_dtype(argument, call.view(i), "query", query));
    return expect_sizes(argument, call.view(i), a, b, c);
}

Status expect_result(const char* argument, const Call& call, int i, const TensorView& query, int64_t a, int64_t b,
                     int64_t c) {
    GRADUS_TRY(expect_result_dtype(argument, call.view(i), "query", query));
    return expect_sizes(argument, call.view(i), a, b, c);
}

}  // namespace

Status check_forward(const Call& call) {
    using namespace forward;
    const TensorView &query = call.view(kQuery), &value = call.view(kValue);
    const Arguments a = arguments_of(call, kForwardPlaces);
    GRADUS_TRY(check_attributes(a));
    GRADUS_TRY(check_operands(a));
    const int64_t rows = query.of(0), heads = query.of(1);
    GRADUS_TRY(expect_sizes("softmaxMaxOut", call.view(kMax), rows, heads, kCopies));
    GRADUS_TRY(expect_sizes("softmaxSumOut", call.view(kSum), rows, heads, kCopies));
    GRADUS_TRY(expect_result("attentionOut", call, kOut, query, rows, heads, value.of(2)));
    return call.config.limits ? check_limits(a) : Status();
}

Status check_grad(const Call& call) {
    using namespace grad;
    const TensorView &query = call.view(kQuery), &key = call.view(kKey), &value = call.view(kValue);
    const Arguments a = arguments_of(call, kGradPlaces);
    GRADUS_TRY(check_attributes(a));
    GRADUS_TRY(check_operands(a));
    const int64_t rows = query.of(0), heads = query.of(1), keys = key.of(0), key_heads = key.of(1);
    if (call.given(kOut)) GRADUS_TRY(expect_like_query("attentionOut", call, kOut, query, rows, heads, value.of(2)));
    GRADUS_TRY(expect_like_query("attentionOutGrad", call, kOutGrad, query, rows, heads, value.of(2)));
    GRADUS_TRY(expect_sizes("softmaxMax", call.view(kMax), rows, heads, kCopies));
    GRADUS_TRY(expect_sizes("softmaxSum", call.view(kSum), rows, heads, kCopies));
    GRADUS_TRY(expect_result("dqOut", call, kQueryGrad, query, rows, heads, query.of(2)));
    GRADUS_TRY(expect_result("dkOut", call, kKeyGrad, query, keys, key_heads, key.of(2)));
    GRADUS_TRY(expect_result("dvOut", call, kValueGrad, query, keys, key_heads, value.of(2)));
    return call.config.limits ? check_limits(a) : Status();
}

}  // namespace gradus::nsa_selected_attention
