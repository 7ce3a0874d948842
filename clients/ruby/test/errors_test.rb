require "test_helper"
require "yaml"

class ErrorsTest < CampanileTest
  def test_each_code_of_the_document_has_a_class_and_no_class_is_for_another
    codes = File.read(File.join(World::REPOSITORY, "openapi.yaml")).scan(/x-problem-codes: \[([^\]]+)\]/).flat_map { |(list)| list.split(/,\s*/) }
    assert_equal codes.uniq.sort, Campanile::Problem::CODES.keys.sort
    assert_equal Campanile::IdempotencyKeyRequired, Campanile::Problem::CODES["idempotency_key_required"]
  end

  def test_what_is_invalid_names_all_fields
    refused = assert_raises(Campanile::Invalid) { campanile.notify(user, title: "", colour: "red") }
    assert_equal [["title", "empty"], ["colour", "unknown"]], refused.errors.map { |error| error.values_at("field", "code") }
    assert_equal [422, "invalid"], [refused.status, refused.code]
    assert_match(/title/, refused.message)
    assert refused.request_id
  end

  def test_a_taken_external_id_names_its_notification
    made = campanile.notify(user, title: "Hello", external_id: "taken")
    refused = assert_raises(Campanile::ExternalIdTaken) { campanile.notify(user, title: "Hello", external_id: "taken") }
    assert_equal made.id, refused.notification_id
  end

  def test_credentials_that_are_wrong_or_of_the_other_kind
    assert_raises(Campanile::Unauthorized) { client(key: "cmp_wrong").notify(user, title: "Hello") }
    assert_raises(Campanile::Forbidden) { client(key: campanile.user_token(user)).notify(user, title: "Hello") }
    assert_raises(Campanile::Unauthorized) { client(jwt_secret: "another secret that is long enough").inbox(user).badge }
    assert_empty slept, "repeating doesn't help"
  end

  def test_an_answer_of_another_program_is_a_problem_without_a_code
    problem = Campanile::Problem.of(status: 502, body: "<h1>Bad Gateway</h1>", content_type: "text/html")
    assert_instance_of Campanile::Problem, problem
    assert_equal [nil, [], 502], [problem.code, problem.errors, problem.status]
    assert_includes problem.message, "Bad Gateway"
    assert_instance_of Campanile::Problem, Campanile::Problem.of(status: 418, body: '{"code":"from_tomorrow"}', content_type: "application/problem+json")
    assert_instance_of Campanile::Problem, Campanile::Problem.of(status: 500, body: "{", content_type: "application/problem+json")
  end

  def test_a_message_is_a_text_that_a_database_takes
    pages = ["차단 " * 500, "a#{"차단" * 500}", "\0\xFF<p>\0", "Accès refusé".encode("ISO-8859-1")]
    members = [{ detail: "차단\u0000 " * 500 }, { code: "차단", title: "차단" }, { code: "차단", detail: ["차단", { "a" => 1 }] }].map { |one| JSON.generate(one) }
    (pages + members).product(%w[text/html application/problem+json]).each do |body, type|
      message = Campanile::Problem.of(status: 403, body: body.b, content_type: type).message
      assert_equal [Encoding::UTF_8, true, true], [message.encoding, message.valid_encoding?, message.start_with?("403 ")], message
      assert_operator message.size, :<=, 500
      refute_includes message, "\0"
    end
    assert_equal "403 a#{"차단" * 247}", Campanile::Problem.of(status: 403, body: pages[1].b, content_type: "text/html").message[0, 499]
  end

  # Traefik answers 404 for a container that is gone, Cloudflare 520 to 530 for an origin that is.
  def test_what_a_proxy_answers_for_a_server_that_is_gone_may_pass
    [404, 408, 429, 500, 502, 503, 504, 520, 521, 522, 523, 530].each do |status|
      assert_kind_of Campanile::Passing, Campanile::Problem.of(status: status, body: "404 page not found", content_type: "text/plain"), status
    end
    [400, 401, 403, 405, 413, 418, 501].each do |status|
      refute_kind_of Campanile::Passing, Campanile::Problem.of(status: status, body: "no", content_type: "text/plain"), status
    end
    own = Campanile::Problem.of(status: 404, body: '{"code":"not_found"}', content_type: "application/problem+json")
    refute_kind_of Campanile::Passing, own
  end
end
