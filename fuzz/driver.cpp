// An engine that any compiler builds: runs the files it is given, a corpus, and seeded cases made of both chance and
// the corpus. With -fsanitize=fuzzer (or OSS-Fuzz's $LIB_FUZZING_ENGINE) libFuzzer takes its place.
//   fuzz_TARGET [--corpus DIR] [--dictionary FILE] [--cases N] [--seconds N] [--seed N] [--patience SECONDS] [FILE…]
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/report.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "fuzz: %s cannot be read\n", path.c_str());
        std::exit(2);
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

// libFuzzer's form: a line each, name="bytes", \xAB for any byte.
std::vector<Bytes> read_dictionary(const std::string& path) {
    std::vector<Bytes> words;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const size_t begin = line.find('"'), end = line.rfind('"');
        if (line.starts_with('#') || begin == std::string::npos || end <= begin) continue;
        Bytes word;
        for (size_t i = begin + 1; i < end; ++i) {
            if (line[i] == '\\' && line.compare(i, 2, "\\x") == 0 && i + 3 < end) {
                word.push_back(static_cast<uint8_t>(std::stoi(line.substr(i + 2, 2), nullptr, 16)));
                i += 3;
            } else {
                if (line[i] == '\\') ++i;
                word.push_back(static_cast<uint8_t>(line[i]));
            }
        }
        words.push_back(word);
    }
    return words;
}

class Mutator {
  public:
    Mutator(uint64_t seed, const std::vector<Bytes>& corpus, const std::vector<Bytes>& dictionary)
        : random_(seed), corpus_(corpus), dictionary_(dictionary) {}

    Bytes next() {
        if (corpus_.empty() || below(2) == 0) return chance(1 + below(96));
        Bytes bytes = corpus_[below(corpus_.size())];
        for (size_t n = below(5); n > 0; --n) change(bytes);
        return bytes;
    }

  private:
    size_t below(size_t n) { return random_() % n; }
    Bytes chance(size_t size) {
        Bytes bytes(size);
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
        return bytes;
    }
    static auto at(Bytes& bytes, size_t i) { return bytes.begin() + static_cast<std::ptrdiff_t>(i); }

    void change(Bytes& bytes) {
        const size_t place = below(bytes.size() + 1), rest = bytes.size() - place;
        const auto insert = [&](const Bytes& what) { bytes.insert(at(bytes, place), what.begin(), what.end()); };
        switch (below(6)) {
            case 0:
                if (rest > 0) bytes[place] ^= static_cast<uint8_t>(1 << below(8));
                return;
            case 1:
                if (rest > 0) bytes[place] = static_cast<uint8_t>(random_());
                return;
            case 2:
                return insert(chance(1 + below(4)));
            case 3:
                bytes.erase(at(bytes, place), at(bytes, place + below(std::min<size_t>(rest, 8) + 1)));
                return;
            case 4: {  // the end of another file
                const Bytes& other = corpus_[below(corpus_.size())];
                const size_t from = below(other.size() + 1);
                bytes.resize(place);
                bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
                return;
            }
            default:
                if (!dictionary_.empty()) insert(dictionary_[below(dictionary_.size())]);
        }
    }

    std::mt19937_64 random_;
    const std::vector<Bytes>&corpus_, &dictionary_;
};

double resident_mib() {
    std::ifstream file("/proc/self/statm");
    double pages = 0;
    file >> pages >> pages;  // all of it, then what is in memory
    return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void run(const Bytes& bytes) {
    // a block of exactly that size: a sanitizer sees a read behind it
    Bytes exact(bytes);
    exact.shrink_to_fit();
    gradus::fuzz::begin_case(exact.data(), exact.size());
    if (gradus::fuzz::planted("crash")) raise(SIGSEGV);
    if (gradus::fuzz::planted("hang")) pause();
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

struct Options {
    std::string corpus, dictionary;
    std::vector<std::string> files;
    uint64_t cases = 0, seconds = 0, seed = 1;
    int patience = 60;
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const bool option = word.starts_with("--") && i + 1 < argc;
        if (option && word == "--corpus")
            options.corpus = argv[++i];
        else if (option && word == "--dictionary")
            options.dictionary = argv[++i];
        else if (option && word == "--cases")
            options.cases = std::strtoull(argv[++i], nullptr, 10);
        else if (option && word == "--seconds")
            options.seconds = std::strtoull(argv[++i], nullptr, 10);
        else if (option && word == "--seed")
            options.seed = std::strtoull(argv[++i], nullptr, 10);
        else if (option && word == "--patience")
            options.patience = std::atoi(argv[++i]);
        else
            options.files.push_back(word);
    }
    return options;
}

// Sorted, so that a failure comes again at the same place.
std::vector<Bytes> read_corpus(const std::string& directory) {
    std::vector<std::filesystem::path> paths;
    if (!directory.empty())
        for (const auto& entry : std::filesystem::directory_iterator(directory)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<Bytes> corpus;
    for (const auto& path : paths) corpus.push_back(read(path));
    return corpus;
}

// As many cases and as many seconds as are asked for.
void run_seeded(const Options& options, Mutator& mutator) {
    const auto begin = std::chrono::steady_clock::now();
    const auto share = [&](uint64_t done) {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        const auto of = [](double part, uint64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 1; };
        return std::min(of(static_cast<double>(done), options.cases), of(passed.count(), options.seconds));
    };
    uint64_t done = 0;
    double warm = 0;
    for (double part = share(0); part < 1; part = share(++done)) {
        if (warm == 0 && part >= 0.2) warm = resident_mib();
        run(mutator.next());
    }
    std::fprintf(stderr, "%llu seeded cases (--seed %llu); %.1f MiB resident after a fifth of them, %.1f at the end\n",
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(options.seed), warm,
                 resident_mib());
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    gradus::fuzz::watch(options.patience);
    LLVMFuzzerInitialize(&argc, &argv);
    for (const std::string& file : options.files) run(read(file));
    const std::vector<Bytes> corpus = read_corpus(options.corpus);
    for (const Bytes& bytes : corpus) run(bytes);
    const std::vector<Bytes> words =
        options.dictionary.empty() ? std::vector<Bytes>() : read_dictionary(options.dictionary);
    Mutator mutator(options.seed, corpus, words);
    run_seeded(options, mutator);
    std::fprintf(stderr, "%zu files and seeded cases, no failure\n", options.files.size() + corpus.size());
    return 0;
}
