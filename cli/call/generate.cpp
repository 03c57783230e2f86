#include "cli/call/generate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/call/catalogue.h"

namespace gradus::cli {
namespace {

// splitmix64's finaliser: every bit of the input reaches every bit of the output.
uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

class Random {
  public:
    explicit Random(const Recipe& recipe) {
        uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a of the name
        for (const char c : recipe.stream) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
        key_ = mixed(hash + 0x9E3779B97F4A7C15u * (recipe.seed + 1));
    }
    // The d-th draw for element i.
    uint64_t bits(int64_t i, uint64_t draw = 0) const {
        return mixed(key_ + 0x9E3779B97F4A7C15u * (4 * static_cast<uint64_t>(i) + draw + 1));
    }
    double unit(int64_t i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }  // [0, 1)
    // The sum of twelve uniform numbers has variance 1 and nearly the shape; exp and log would differ in their last
    // bits from one C library to the next.
    double normal(int64_t i) const {
        uint64_t sum = 0;
        for (uint64_t draw = 0; draw < 3; ++draw) {
            const uint64_t b = bits(i, draw);
            sum += (b & 0xFFFF) + (b >> 16 & 0xFFFF) + (b >> 32 & 0xFFFF) + (b >> 48);
        }
        return (static_cast<double>(sum) - 12 * 32767.5) * 0x1p-16;
    }
    int64_t below(int64_t i, int64_t limit) const {
        return limit > 0 ? static_cast<int64_t>(bits(i) % static_cast<uint64_t>(limit)) : 0;
    }

  private:
    uint64_t key_;
};

// value(i) into every element, in as many threads as a large tensor is worth.
template <typename F>
void fill(const Tensor& tensor, const F& value) {
    constexpr int64_t kWorthThread = 1 << 18;
    const int64_t count = tensor.count();
    const int64_t most = std::max(1u, std::thread::hardware_concurrency());
    const int64_t parts = std::clamp<int64_t>(count / kWorthThread, 1, most);
    const auto work = [&](int64_t part) {
        for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) tensor.set(i, value(i));
    };
    std::vector<std::thread> threads;
    for (int64_t part = 1; part < parts; ++part) threads.emplace_back(work, part);
    work(0);
    for (std::thread& thread : threads) thread.join();
}

class Maker {
  public:
    Maker(const Tensor& tensor, const Recipe& recipe, const Surroundings& around)
        : tensor_(tensor), recipe_(recipe), around_(around), random_(recipe) {}

    double option(const char* name, double otherwise) const {
        const auto found = recipe_.options.find(name);
        return found == recipe_.options.end() ? otherwise : evaluate(found->second, around_.sizes);
    }

    void randn() const {
        const double mean = option("mean", 0), deviation = option("std", 1);
        fill(tensor_, [&](int64_t i) { return mean + deviation * random_.normal(i); });
    }
    void uniform() const {
        const double low = option("low", 0), high = option("high", 1);
        fill(tensor_, [&](int64_t i) { return low + (high - low) * random_.unit(i); });
    }
    void arange() const {
        const double start = option("start", 0), step = option("step", 1);
        fill(tensor_, [&](int64_t i) { return start + step * static_cast<double>(i); });
    }
    void constant(double value) const {
        fill(tensor_, [value](int64_t) { return value; });
    }
    void full() const { constant(option("value", 0)); }
    void zeros() const { constant(0); }
    void ones() const { constant(1); }
    void index() const {
        if (recipe_.options.count("high") == 0) throw Failure(kUsage, "index: it needs high=, which is exclusive");
        const auto low = static_cast<int64_t>(option("low", 0)), high = static_cast<int64_t>(option("high", 0));
        fill(tensor_, [&](int64_t i) { return static_cast<double>(low + random_.below(i, high - low)); });
    }
    void randbool() const {
        const double p = option("p", 0.5);
        fill(tensor_, [&](int64_t i) { return random_.unit(i) < p ? 1.0 : 0.0; });
    }
    void mask_bits() const {
        const double p = option("p", 0.25);
        if (tensor_.dtype() == ACL_BOOL)
            return fill(tensor_, [&](int64_t i) { return random_.unit(i) < p ? 1.0 : 0.0; });
        fill(tensor_, [&](int64_t i) {
            int byte = 0;
            for (int bit = 0; bit < 8; ++bit) byte |= random_.unit(8 * i + bit) < p ? 1 << bit : 0;
            return static_cast<double>(byte);
        });
    }
    void causal_mask() const {
        const Shape& shape = tensor_.shape();
        if (shape.size() < 2)
            throw Failure(kUsage, fmt::format("causal_mask: shape {}, expected rank 2 or more", text(shape)));
        const int64_t columns = shape.back(), rows = shape[shape.size() - 2];
        // the last row sees everything, however many keys came before the first
        fill(tensor_, [&](int64_t i) { return i % columns > i / columns % rows + columns - rows ? 1.0 : 0.0; });
    }
    // Besides, the first keys are masked, as those of a shorter sequence are, so that a single row has a mask, too; and
    // every eighth row as a whole: there a gradient is zero because of the mask alone. Both differ from one matrix to
    // the next: who takes the mask of another batch is seen.
    void attention_mask() const {
        causal_mask();
        const Shape& shape = tensor_.shape();
        const int64_t columns = shape.back(), rows = shape[shape.size() - 2], period = std::min<int64_t>(rows, 8);
        for (int64_t i = 0; i < tensor_.count(); ++i) {
            const int64_t row = i / columns % rows, matrix = i / columns / rows;
            const int64_t padding = columns == 1 ? 0 : 1 + matrix % std::min<int64_t>(4, columns - 1);
            const bool whole = rows > 1 && row % period == (std::min<int64_t>(5, rows - 1) + 3 * matrix) % period;
            if (whole || i % columns < padding) tensor_.set(i, 1);
        }
    }
    // Both sides of both ends first: half of all; the others around and between them.
    void targets() const {
        const auto start = static_cast<int64_t>(option("start", static_cast<double>(size_or("vocabStartIndex", 0))));
        const auto end = static_cast<int64_t>(option("end", static_cast<double>(size_or("vocabEndIndex", start))));
        const int64_t around = std::max<int64_t>(1, (end - start) / 8), low = start - around;
        const int64_t edges[] = {end - 1, start, end, start - 1};
        fill(tensor_, [&](int64_t i) {
            return static_cast<double>(i % 8 < 4 ? edges[i % 8] : low + random_.below(i, end + around - low));
        });
    }
    void topk() const;

  private:
    std::vector<int64_t> ends(const char* option_name, const char* usual, int64_t otherwise) const {
        const auto named = recipe_.options.find(option_name);
        const auto found = around_.arrays.find(named == recipe_.options.end() ? usual : named->second);
        return found == around_.arrays.end() || found->second.empty() ? std::vector<int64_t>{otherwise} : found->second;
    }
    int64_t size_or(const char* name, int64_t otherwise) const {
        const auto found = around_.sizes.find(name);
        return found == around_.sizes.end() ? otherwise : found->second;
    }

    const Tensor& tensor_;
    const Recipe& recipe_;
    const Surroundings& around_;
    const Random random_;
};

// One of each of `parts` stretches of [0, count): the part-th. None comes twice while parts is at most count.
int64_t one_of(const Random& random, int64_t draw, int64_t part, int64_t parts, int64_t count) {
    const int64_t low = count * part / parts, high = count * (part + 1) / parts;
    return low + random.below(draw, high - low);
}

// [rows, heads, count], none twice in a row: its own block, the first of its batch, others before it at random; where
// there are too few, some beyond it, which causal attention must not see, then -1. Every eighth row has a -1 anyway.
// The list begins anywhere, so that every place of it matters.
void Maker::topk() const {
    const Shape& shape = tensor_.shape();
    if (shape.size() != 3) throw Failure(kUsage, fmt::format("topk: shape {}, expected rank 3", text(shape)));
    const int64_t rows = shape[0], heads = shape[1], count = shape[2];
    const auto size = std::max<int64_t>(
        1, static_cast<int64_t>(option("size", static_cast<double>(size_or("selectedBlockSize", 1)))));
    const auto keys =
        static_cast<int64_t>(option("keys", static_cast<double>(size_or("T2", std::max(rows, size * count)))));
    const std::vector<int64_t> row_ends = ends("row_ends", "actualSeqQLenOptional", rows);
    const std::vector<int64_t> key_ends = ends("key_ends", "actualSeqKvLenOptional", keys);
    const auto block = [&](int64_t list, int64_t place, int64_t row, int64_t blocks) -> int64_t {
        const int64_t own = std::min(row / size, blocks - 1), draw = list * count + place;
        const int64_t seen = std::min(count, own + 1);  // its own, the first, and seen - 2 between them
        const int64_t beyond = std::min(count - seen, blocks - 1 - own);
        if (row % 8 == 3 && place == count - 1) return -1;
        if (place == 0) return own;
        if (place == 1 && own > 0) return 0;
        if (place < seen) return 1 + one_of(random_, draw, place - 2, seen - 2, own - 1);
        if (place - seen < beyond) return own + 1 + one_of(random_, draw, place - seen, beyond, blocks - 1 - own);
        return -1;
    };
    fill(tensor_, [&](int64_t i) {
        const int64_t list = i / count, row = list / heads;
        size_t batch = 0;
        while (batch + 1 < std::min(row_ends.size(), key_ends.size()) && row >= row_ends[batch]) ++batch;
        const int64_t row_base = batch == 0 ? 0 : row_ends[batch - 1], key_base = batch == 0 ? 0 : key_ends[batch - 1];
        const int64_t blocks = std::max<int64_t>(1, (key_ends[batch] - key_base + size - 1) / size);
        const int64_t first = random_.below(rows * heads * count + list, count);
        return static_cast<double>(block(list, (i + first) % count, row - row_base, blocks));
    });
}

struct Generator {
    GeneratorHelp help;
    void (Maker::*make)() const;
};
const std::vector<Generator>& all_generators() {
    static const std::vector<Generator> all = {
        {{"randn", "mean=0,std=1", "normally distributed"}, &Maker::randn},
        {{"uniform", "low=0,high=1", "evenly distributed"}, &Maker::uniform},
        {{"arange", "start=0,step=1", "counting up"}, &Maker::arange},
        {{"zeros", "", "0"}, &Maker::zeros},
        {{"ones", "", "1"}, &Maker::ones},
        {{"full", "value=0", "one number"}, &Maker::full},
        {{"index", "low=0,high=", "integers below high"}, &Maker::index},
        {{"randbool", "p=0.5", "1 with probability p"}, &Maker::randbool},
        {{"mask_bits", "p=0.25", "eight random bits a byte"}, &Maker::mask_bits},
        {{"targets", "start=,end=", "numbers of words at, around and between the ends of a part of the vocabulary"},
         &Maker::targets},
        {{"causal_mask", "", "1 right of the diagonal that ends in the last corner of the last two dims"},
         &Maker::causal_mask},
        {{"attention_mask", "", "causal_mask, and 1 for the first keys and every eighth row, others in every batch"},
         &Maker::attention_mask},
        {{"topk", "size=,keys=,row_ends=,key_ends=", "blocks of keys for each row, as sparse attention selects them"},
         &Maker::topk},
    };
    return all;
}

void check_options(const Generator& generator, const Recipe& recipe) {
    for (const auto& [name, value] : recipe.options) {
        std::vector<std::string> known;
        for (const std::string& option : split(generator.help.options, ','))
            known.push_back(option.substr(0, option.find('=')));
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        const std::string takes = *generator.help.options == '\0' ? "no options" : generator.help.options;
        throw Failure(kUsage, fmt::format("{}: unknown option '{}'; it takes {}", recipe.generator, name, takes));
    }
}

}  // namespace

uint64_t seed_of(const std::string& text, const Sizes& sizes) {
    const int64_t seed = evaluate_integer(text, sizes);
    if (seed < 0) throw Failure(kUsage, fmt::format("'{}', expected a number from 0 up", text));
    return static_cast<uint64_t>(seed);
}

void generate(const Tensor& tensor, const Recipe& recipe, const Surroundings& around) {
    for (const Generator& generator : all_generators()) {
        if (recipe.generator != generator.help.name) continue;
        check_options(generator, recipe);
        if (tensor.count() > 0) (Maker(tensor, recipe, around).*generator.make)();
        return;
    }
    std::vector<std::string> names;
    for (const GeneratorHelp& help : generators()) names.emplace_back(help.name);
    throw Failure(kUsage, fmt::format("'{}' is neither a file nor a generator{}", recipe.generator,
                                      suggestion(recipe.generator, names)));
}

const std::vector<GeneratorHelp>& generators() {
    static const std::vector<GeneratorHelp> all = [] {
        std::vector<GeneratorHelp> help;
        for (const Generator& generator : all_generators()) help.push_back(generator.help);
        return help;
    }();
    return all;
}

bool is_generator(const std::string& name) {
    const auto& all = generators();
    return std::any_of(all.begin(), all.end(), [&](const GeneratorHelp& help) { return name == help.name; });
}

}  // namespace gradus::cli
