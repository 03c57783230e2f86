#!/usr/bin/env python3
"""What the packages in a directory are made of and need, as SPDX 2.3 in JSON, on stdout.

    spdx.py <directory with gradus_*.deb, libgradus*.deb>

Versions are those of this machine's dpkg, which the packages were built with.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import uuid

LICENCE = 'Apache-2.0'
# What becomes part of the files: headers, and one archive. What is loaded beside them is in the packages' Depends.
BUILT_IN = {
    'libcli11-dev': 'BSD-3-Clause',
    'nlohmann-json3-dev': 'MIT',
    'libhwy-dev': 'Apache-2.0',
    'libgloo-dev': 'BSD-3-Clause',
    'libfmt-dev': 'MIT',
    'libstdc++-12-dev': 'GPL-3.0-or-later WITH GCC-exception-3.1',
    'libgcc-12-dev': 'BSD-3-Clause',  # libbacktrace.a
}


def ask(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def field(deb, name):
    return ask('dpkg-deb', '-f', deb, name).strip()


def spdx_id(name):
    return 'SPDXRef-' + re.sub('[^A-Za-z0-9.-]', '-', name)


def package(name, version, licence, **more):
    purl = f'pkg:deb/debian/{name.replace("+", "%2B")}@{version.replace(":", "%3A").replace("+", "%2B")}'
    return {
        'SPDXID': spdx_id(name), 'name': name, 'versionInfo': version, 'downloadLocation': 'NOASSERTION',
        'filesAnalyzed': False, 'licenseConcluded': licence, 'licenseDeclared': licence,
        'copyrightText': 'NOASSERTION',
        'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl', 'referenceLocator': purl}],
        **more,
    }


def installed(name, licence='NOASSERTION'):
    version = ask('dpkg-query', '-W', '-f', '${Version}\n', name).split('\n')[0]
    return package(name, version, licence)


def names(dependencies):
    """libc6 (>= 2.34), libfmt9 → libc6, libfmt9"""
    return [name for name in re.findall(r'(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)', dependencies)]


def main():
    directory = pathlib.Path(sys.argv[1])
    debs = sorted(path for path in directory.glob('*.deb') if 'dbgsym' not in path.name)
    if not debs:
        sys.exit(f'spdx.py: no packages in {directory}')
    packages, relationships = {}, []

    def relate(one, kind, other):
        relationships.append({'spdxElementId': one, 'relationshipType': kind, 'relatedSpdxElement': other})

    digests = hashlib.sha256()
    for deb in debs:
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        digests.update(digest.encode())
        name = field(deb, 'Package')
        packages[name] = package(name, field(deb, 'Version'), LICENCE, packageFileName=deb.name,
                                 supplier='Person: ' + re.sub(' *<.*', '', field(deb, 'Maintainer')),
                                 checksums=[{'algorithm': 'SHA256', 'checksumValue': digest}])
        relate('SPDXRef-DOCUMENT', 'DESCRIBES', spdx_id(name))
    for deb in debs:
        ours = spdx_id(field(deb, 'Package'))
        for kind, depends in ('DEPENDS_ON', 'Depends'), ('OPTIONAL_DEPENDENCY_OF', 'Recommends'):
            for name in names(field(deb, depends)):
                packages.setdefault(name, None)
                packages[name] = packages[name] or installed(name)
                relate(*((ours, kind, spdx_id(name)) if kind == 'DEPENDS_ON' else (spdx_id(name), kind, ours)))
    shipped = [spdx_id(name) for name in ('libgradus0', 'gradus')]
    for name, licence in BUILT_IN.items():
        packages[name] = installed(name, licence)
        for ours in shipped:
            relate(spdx_id(name), 'BUILD_DEPENDENCY_OF', ours)

    created = time.gmtime(int(os.environ.get('SOURCE_DATE_EPOCH', time.time())))
    version = packages['libgradus0']['versionInfo']
    json.dump({
        'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT',
        'name': f'gradus-{version}',
        'documentNamespace': f'https://spdx.org/spdxdocs/gradus-{version}-{uuid.UUID(digests.hexdigest()[:32])}',
        'creationInfo': {'created': time.strftime('%Y-%m-%dT%H:%M:%SZ', created), 'creators': ['Tool: spdx.py']},
        'packages': [packages[name] for name in sorted(packages)], 'relationships': relationships,
    }, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
