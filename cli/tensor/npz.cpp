#include "cli/tensor/npz.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <span>

#include "cli/base/failure.h"

namespace gradus::cli {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEntry = 0x02014b50, kLocal = 0x04034b50;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // the number is in the extra field, in 64 bits

// Little-endian numbers at places that were checked to be there.
uint64_t number(std::span<const char> bytes, size_t at, int width) {
    uint64_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
    return value;
}

std::vector<char> bytes_at(Input& archive, int64_t at, int64_t count, const char* what) {
    archive.seek(at);
    if (count > archive.left()) refuse(archive.name(), fmt::format("truncated: {} is not all there", what));
    std::vector<char> bytes(static_cast<size_t>(count));
    archive.read(bytes.data(), count, what);
    return bytes;
}

// The end of the directory is at the end, but for a comment of up to 64 KiB.
std::vector<char> directory(Input& archive) {
    const int64_t tail_size = std::min<int64_t>(archive.size(), 22 + 0xFFFF + 20);
    const int64_t tail_at = archive.size() - tail_size;
    const std::vector<char> tail = bytes_at(archive, tail_at, tail_size, "the end of the archive");
    for (int64_t at = tail_size - 22; at >= 0; --at) {
        const auto place = static_cast<size_t>(at);
        if (number(tail, place, 4) != kEnd) continue;
        auto size = static_cast<int64_t>(number(tail, place + 12, 4));
        auto begin = static_cast<int64_t>(number(tail, place + 16, 4));
        if (begin == kIn64 && at >= 20) {
            const auto end = static_cast<int64_t>(number(tail, place - 12, 8));
            const std::vector<char> wide = bytes_at(archive, end, 56, "the directory's end");
            if (number(wide, 0, 4) != kEnd64) refuse(archive.name(), "the archive's directory has no end");
            size = static_cast<int64_t>(number(wide, 40, 8)), begin = static_cast<int64_t>(number(wide, 48, 8));
        }
        if (size < 0 || begin < 0 || begin > archive.size() - size)
            refuse(archive.name(), "its directory lies outside");
        return bytes_at(archive, begin, size, "the directory");
    }
    refuse(archive.name(), "not a .npz file: no zip archive");
}

// Sizes and the offset beyond 4 GB, in the order in which they were left out.
void read_extra(std::span<const char> extra, NpzMember& member) {
    while (extra.size() >= 4) {
        const auto length = static_cast<size_t>(number(extra, 2, 2));
        if (length > extra.size() - 4) return;
        std::span<const char> field = extra.subspan(4, length);
        const bool wide = number(extra, 0, 2) == 1;
        for (int64_t* value : {&member.unpacked, &member.packed, &member.offset})
            if (wide && *value == kIn64 && field.size() >= 8) {
                *value = static_cast<int64_t>(number(field, 0, 8));
                field = field.subspan(8);
            }
        extra = extra.subspan(4 + length);
    }
}

}  // namespace

std::vector<NpzMember> npz_members(Input& archive) {
    const std::vector<char> bytes = directory(archive);
    std::vector<NpzMember> members;
    for (std::span<const char> rest = bytes; rest.size() >= 46;) {
        if (number(rest, 0, 4) != kEntry) refuse(archive.name(), "its directory is damaged");
        const auto name = static_cast<size_t>(number(rest, 28, 2)), extra = static_cast<size_t>(number(rest, 30, 2)),
                   comment = static_cast<size_t>(number(rest, 32, 2));
        if (46 + name + extra + comment > rest.size()) refuse(archive.name(), "its directory is damaged");
        const auto method = number(rest, 10, 2), flags = number(rest, 8, 2);
        NpzMember member{std::string(rest.data() + 46, name),        static_cast<int64_t>(number(rest, 42, 4)),
                         static_cast<int64_t>(number(rest, 20, 4)),  static_cast<int64_t>(number(rest, 24, 4)),
                         static_cast<uint32_t>(number(rest, 16, 4)), method == 8};
        read_extra(rest.subspan(46 + name, extra), member);
        if ((method != 0 && method != 8) || (flags & 1) != 0)
            refuse(archive.name(), fmt::format("{} is packed in a way that NumPy does not use", member.name));
        if (member.name.ends_with(".npy")) {
            member.name.resize(member.name.size() - 4);
            members.push_back(std::move(member));
        }
        rest = rest.subspan(46 + name + extra + comment);
    }
    return members;
}

std::vector<char> read_member(Input& archive, const NpzMember& member) {
    const std::vector<char> local = bytes_at(archive, member.offset, 30, "a member's header");
    if (number(local, 0, 4) != kLocal)
        refuse(archive.name(), fmt::format("{} is not where the directory says", member.name));
    const auto skip = static_cast<int64_t>(number(local, 26, 2) + number(local, 28, 2));
    const std::vector<char> packed =
        bytes_at(archive, member.offset + 30 + skip, member.packed, "a member of the archive");
    // Deflate makes at most 1032 bytes of one: a size beyond that is a lie that would cost memory.
    if (member.unpacked < 0 || member.unpacked / 1032 > member.packed ||
        (!member.deflated && member.unpacked != member.packed))
        refuse(archive.name(), fmt::format("{}: {} bytes cannot hold {}", member.name, member.packed, member.unpacked));
    std::vector<char> content(static_cast<size_t>(member.unpacked));
    if (member.deflated) {
        z_stream stream{};
        if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Failure(kEnvironment, "zlib cannot start");
        size_t taken = 0, made = 0;
        int status = Z_OK;
        constexpr size_t kPiece = 1 << 30;  // zlib counts in 32 bits
        while (status == Z_OK) {
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())) + taken;
            stream.next_out = reinterpret_cast<Bytef*>(content.data()) + made;
            const auto in = static_cast<uInt>(std::min(kPiece, packed.size() - taken));
            const auto out = static_cast<uInt>(std::min(kPiece, content.size() - made));
            stream.avail_in = in, stream.avail_out = out;
            status = inflate(&stream, Z_NO_FLUSH);
            taken += in - stream.avail_in, made += out - stream.avail_out;
        }
        inflateEnd(&stream);
        if (status != Z_STREAM_END || made != content.size())
            refuse(archive.name(), fmt::format("{}: it cannot be unpacked", member.name));
    } else {
        content = packed;
    }
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
    if (crc != member.crc)
        refuse(archive.name(), fmt::format("{}: its bytes are not those that were packed", member.name));
    return content;
}

}  // namespace gradus::cli
