require "test_helper"

class SettingsTest < CampanileTest
  def test_the_environment_says_what_is_not_set
    found = Campanile::Configuration.new({ "CAMPANILE_URL" => "https://push.example.com/", "CAMPANILE_KEY" => "cmp_x", "CAMPANILE_APP" => "shop" })
    assert_equal ["https://push.example.com", "cmp_x", "shop"], [found.url, found.key, found.app]
    found.url, found.key = "http://localhost:3001", "cmp_y"
    assert_equal ["http://localhost:3001", "cmp_y"], [found.url, found.key]
  end

  def test_without_an_environment_the_server_is_on_this_machine
    none = Campanile::Configuration.new({ "CAMPANILE_URL" => "" })
    assert_equal ["http://127.0.0.1:3001", "default"], [none.url, none.app]
    assert_match(/CAMPANILE_KEY/, assert_raises(Campanile::ConfigurationError) { none.key }.message)
    assert_match(/CAMPANILE_JWT_SECRET/, assert_raises(Campanile::ConfigurationError) { none.jwt_secret }.message)
  end

  def test_a_users_stream_is_named_as_the_server_names_it
    assert_equal "notifications:7", Campanile::Configuration.new({}).stream_of(7)
    named = Campanile::Configuration.new({ "CAMPANILE_CABLE_STREAM_NAME" => "{app}:{user_id}", "CAMPANILE_APP" => "shop" })
    assert_equal "shop:{app}", named.stream_of("{app}")
  end

  def test_secrets_may_stand_in_files_that_come_later
    Dir.mktmpdir do |folder|
      path = File.join(folder, "key")
      settings = Campanile::Configuration.new({ "CAMPANILE_KEY_FILE" => path })
      assert_raises(Campanile::ConfigurationError) { settings.key }
      File.write(path, "cmp_z\n")
      assert_equal "cmp_z", settings.key
    end
  end

  ["push.example.com", "ftp://push.example.com", "http://", "http://a/path", "http://a?b", "http://user@a", "no url"].each do |url|
    define_method(:"test_#{url.inspect}_is_no_address") do
      settings = Campanile::Configuration.new({})
      settings.url = url
      assert_raises(Campanile::ConfigurationError) { settings.url }
    end
  end

  def test_a_short_secret_is_refused
    assert_match(/32 bytes/, assert_raises(Campanile::ConfigurationError) { client(jwt_secret: "short").user_token(user) }.message)
  end

  def test_no_secret_is_shown
    shown = World.configuration.inspect
    refute_includes shown, World::SECRET
    refute_includes shown, World.key
    inbox = client.inbox(user)
    token = inbox.instance_variable_get(:@token)
    refute_includes inbox.inspect, token
    refute_includes assert_raises(NoMethodError) { inbox.lst }.message, token
  end

  def test_a_user_token_has_the_users_id_the_app_and_an_end
    token = Campanile::UserToken.make(7, World.configuration(app: "shop", jwt_issuer: "us"), seconds: 60, now: Time.at(1_000))
    claims = JSON.parse(token.split(".")[1].tr("-_", "+/").unpack1("m"))
    assert_equal({ "sub" => "7", "iat" => 1_000, "exp" => 1_060, "app" => "shop", "iss" => "us" }, claims)
  end

  def test_an_app_may_sign_for_itself
    signer = ->(claims) { "signed #{claims[:sub]}" }
    assert_equal "signed alice", client(sign_user_token: signer).user_token("alice")
  end
end
