import Foundation
import Testing

@testable import CampanileServer

/// The server reads a rule's pattern with Swift's engine, so that the program needs none of ICU's data. The phones' engine is there to
/// compare with: Foundation's NSRegularExpression is what Hotwire Native for iOS uses. Known to differ: `\w` and `\W` on
/// other scripts' digits and on combining marks, `ß` beside `SS` without regard to case, where Android's engine differs from ICU too, and line
/// ends, which no path holds.
@Suite("Patterns of path rules") struct PathPatternTests {
    private static let patterns = [
        ".*", "/", "^/$", "^/?$", "/new$", "/edit$", "/new/?$", "^/sign_in", "^/users/sign_(in|up)$", "/posts/\\d+",
        "^/posts/\\d+$",
        "^/posts/[0-9]{1,3}(/.*)?$", "/(new|edit)\\b", "\\bnew\\b", "^(?!/admin).*$", "^(?=/a).*b", "(?i)/Inbox", "(?:a|b)+c",
        "a{2,}?",
        "\\.pdf$", "\\.(pdf|png)(\\?.*)?$", "[?&]modal=true", "^/[^/]+/[^/]+$", "^/\\w+$", "/[[:alpha:]]+$", "\\p{L}+", "\\P{L}",
        "[\\w-]+",
        "[a-z&&[^aeiou]]", "a++b", "(?>a+)b", "(a)\\1", "(?<name>a)\\k<name>", "\\Aa", "a\\z", "a\\Z", "^é", "é", "ß", "I", "İ",
        "\\x41", "\\u0041",
        "\\Q.*\\E", "(?s).", "(?m)^b", "(?x) a b", "\\s", "\\S+", "\\D", "\\W", "\\h", "\\R", "$", "^", "|", "a|", "()",
        "\\/posts", "\\-", "\\_", "^/posts\\?page=\\d$", "/👍", "[👍a]", "😀{2}", "e\\u0301", ".{1}$", "^.{5}$", "[^a]",
    ]
    private static let wrong = [
        "", "(?P<n>a)(?P=n)", "(?'n'a)", "(?^i)a", "(?n)a", "(?iU)a", "\\u{41}", "(?<n>a)\\k{n}", "a{,3}", "a{2", "{", "}", "a}",
        "/{id}", "[{}]",
        "\\{", "\\Q{\\E", "\\p{L}{2}", "(?<=a", "(?<=[)", "[", "(", ")", "*", "+", "?", "a**", "[z-a]", "(?<n>", "\\", "(?P<n>a)",
        "a{2,1}", "\\1", "(?", "[[:x:]]", "\\p{Zzz}",
    ]
    private static let paths = [
        "", "/", "/new", "/posts/new", "/posts/newer", "/posts/12", "/posts/12/edit", "/posts/1234", "/a.pdf", "/a.pdf?x=1",
        "/sign_in",
        "/users/sign_up", "/admin/a", "/inbox", "/INBOX", "/x?modal=true", "/a/b", "aab", "aa", "abc", "bac", "é", "É", "ß", "i",
        "İ",
        "ı", "A", ".*", "a\nb", "b", " ", "new", "a-b_c", "/posts?page=3", "/👍", "👍🏽", "😀😀", "12345", "日本語", "x|y",
    ]

    private static func judge(_ pattern: String, _ path: String, ignoresCase: Bool) -> Bool? {
        let options: NSRegularExpression.Options = ignoresCase ? .caseInsensitive : []
        guard let regex = try? NSRegularExpression(pattern: pattern, options: options) else { return nil }
        return regex.firstMatch(in: path, range: NSRange(location: 0, length: path.utf16.count)) != nil
    }

    @Test("a pattern matches the paths that it matches on a phone, with and without regard to case", arguments: patterns)
    func matches(_ pattern: String) throws {
        for ignoresCase in [false, true] {
            let others = Self.paths.filter { path in
                PathPattern(pattern, ignoresCase: ignoresCase)?.matches(path)
                    != Self.judge(pattern, path, ignoresCase: ignoresCase)
            }
            #expect(others.isEmpty, "\(others) \(ignoresCase)")
        }
    }

    @Test("a pattern that looks back is one, and isn't looked into", arguments: ["(?<=/)new", "^(?<!a)b"])
    func lookbehind(_ pattern: String) throws {
        #expect(try !#require(PathPattern(pattern)).matches("/new"))
        #expect(Self.judge(pattern, "b", ignoresCase: false) != nil)
    }

    @Test("text that is no pattern on a phone is none here", arguments: wrong)
    func refused(_ text: String) {
        #expect((PathPattern(text) == nil) == ((try? NSRegularExpression(pattern: text)) == nil))
    }
}
