// Two random views: what base/tensor_view answers about them, against sets of addresses.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/tensor_view.h"
#include "fuzz/input.h"
#include "fuzz/report.h"

namespace gradus::fuzz {
namespace {

constexpr int64_t kMostElements = 4096;
using Wide = __int128;  // what the library must not overflow is computed where it cannot

TensorView random_view(Input& in) {
    TensorView view;
    view.dtype = in.pick({DType::f32, DType::f16, DType::f64, DType::u8, DType::i64});
    view.rank = static_cast<int>(in.between(0, in.one_in(8) ? 8 : 4));
    const int64_t most = in.pick<int64_t>({3, 12, 60, 400});
    for (int d = 0; d < view.rank; ++d) {
        const auto k = static_cast<size_t>(d);
        view.size[k] = in.one_in(16) ? 0 : in.between(1, in.one_in(4) ? 24 : 5);
        view.stride[k] = in.one_in(12) ? 0 : in.between(1, most);
    }
    view.offset = in.between(0, 9);
    Wide last = view.offset;
    for (int d = 0; d < view.rank; ++d) last += Wide{std::max<int64_t>(view.of(d), 1) - 1} * view.step(d);
    view.storage = static_cast<int64_t>(last) + in.between(0, 2);  // one too few, as many as needed, one more
    // Now and then numbers that no memory has.
    if (view.rank > 0 && in.one_in(8)) {
        const auto k = static_cast<size_t>(in.below(static_cast<uint64_t>(view.rank)));
        const int64_t huge = in.pick<int64_t>({-1, INT64_MIN, INT64_MAX, int64_t{1} << 62, int64_t{1} << 31});
        (in.one_in(2) ? view.size : view.stride)[k] = huge;
        if (in.one_in(2)) view.storage = INT64_MAX;
    }
    if (in.one_in(24)) view.offset = in.pick<int64_t>({-1, INT64_MIN, INT64_MAX});
    return view;
}

std::string words(const TensorView& view) {
    std::string text = "[";
    for (int d = 0; d < view.rank; ++d) text += (d > 0 ? "," : "") + std::to_string(view.of(d));
    text += "] strides [";
    for (int d = 0; d < view.rank; ++d) text += (d > 0 ? "," : "") + std::to_string(view.step(d));
    return text + "] offset " + std::to_string(view.offset) + " storage " + std::to_string(view.storage) + " of " +
           dtype_name(view.dtype).c_str();
}

// The contract of check_extent, word by word.
bool legal(const TensorView& view) {
    constexpr Wide kMost = INT64_MAX;
    const Wide item = dtype_size(view.dtype);
    Wide elements = item, last = view.offset;
    bool empty = false;
    if (view.offset < 0) return false;
    for (int d = 0; d < view.rank; ++d) {
        if (view.of(d) < 0 || view.step(d) < 0) return false;
        empty = empty || view.of(d) == 0;
        elements *= std::max<int64_t>(view.of(d), 1);
        if (elements > kMost) return false;
        last += Wide{std::max<int64_t>(view.of(d), 1) - 1} * view.step(d);
        if (last > kMost) return false;
    }
    if ((last + 1) * item > kMost) return false;
    return empty || view.storage < 0 || last < view.storage;
}

bool countable(const TensorView& view) {
    Wide elements = 1;
    for (int d = 0; d < view.rank; ++d) elements *= view.of(d);
    return elements <= kMostElements;
}

std::vector<int64_t> addresses(const TensorView& view) {
    std::vector<int64_t> all = {view.offset};
    for (int d = 0; d < view.rank; ++d)
        if (view.of(d) == 0) return {};
    for (int d = 0; d < view.rank; ++d) {
        std::vector<int64_t> next;
        for (const int64_t base : all)
            for (int64_t i = 0; i < view.of(d); ++i) next.push_back(base + i * view.step(d));
        all = std::move(next);
    }
    return all;
}

std::set<int64_t> bytes_of(const TensorView& view, int64_t begin) {
    std::set<int64_t> bytes;
    const int64_t item = dtype_size(view.dtype);
    for (const int64_t at : addresses(view))
        for (int64_t b = 0; b < item; ++b) bytes.insert(begin + at * item + b);
    return bytes;
}

void expect(const char* question, bool got, bool want, const std::string& about) {
    if (planted(question)) got = !got;
    if (got != want) fail(question, about + (got ? ": said to be so, and is not" : ": said not to be so, and is"));
}

// One view by itself; whether it may be asked about further.
bool judge(const TensorView& view) {
    const bool accepted = check_extent(view).ok();
    expect("extent", accepted, legal(view), words(view));
    count(accepted ? "views accepted" : "views refused");
    if (!accepted || !countable(view)) return false;
    const std::vector<int64_t> all = addresses(view);
    expect("empty", view.empty(), all.empty(), words(view));
    if (view.numel() != static_cast<int64_t>(all.size())) fail("numel", words(view));
    bool dense = true;
    for (size_t i = 0; i < all.size(); ++i) dense = dense && all[i] == view.offset + static_cast<int64_t>(i);
    if (!all.empty()) expect("contiguous", view.contiguous(), dense, words(view));
    const std::set<int64_t> distinct(all.begin(), all.end());
    expect("overlaps_itself", overlaps_itself(view), distinct.size() < all.size(), words(view));
    const auto [begin, end] = view.extent();
    const int64_t item = dtype_size(view.dtype);
    const bool exact = all.empty() ? begin == 0 && end == 0
                                   : begin == *distinct.begin() * item && end == (*distinct.rbegin() + 1) * item;
    if (!exact) fail("range", words(view));
    return true;
}

}  // namespace
}  // namespace gradus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gradus::fuzz;  // NOLINT(google-build-using-namespace)
    Input in(data, size);
    const gradus::TensorView a = random_view(in), b = random_view(in);
    const int64_t distance = in.one_in(2) ? in.between(-300, 300) : in.between(-9, 9);
    set_case("views " + words(a) + " and " + words(b) + ", " + std::to_string(distance) + " bytes behind");
    count("pairs of views");
    const bool both = static_cast<int>(judge(a)) + static_cast<int>(judge(b)) == 2;
    if (!both) return 0;
    const std::set<int64_t> ours = bytes_of(a, 0), theirs = bytes_of(b, distance);
    const bool share = std::any_of(ours.begin(), ours.end(), [&](int64_t byte) { return theirs.contains(byte); });
    expect("overlaps", overlaps(a, b, distance), share, words(a) + " and " + words(b));
    expect("overlaps", overlaps(b, a, -distance), share, words(b) + " and " + words(a));
    count(share ? "pairs that overlap" : "pairs that do not");
    return 0;
}
